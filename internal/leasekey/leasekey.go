// Package leasekey holds the context key of a lease. It is a string so that a *gin.Context, which looks up only strings
// of its own, can carry a lease too.
package leasekey

// Key is the key under which a context answers with its innermost *guard.Lease.
const Key = "github.com/go-lockguard/guard.lease"
