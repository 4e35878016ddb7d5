package locker

// Hold is a claim that owns its key, as a store needs it to compare the owner
// in a transaction of its user.
type Hold struct {
	Key   string // Claim.Key
	Owner string // Claim.Owner
	Limit int    // Claim.Limit
}
