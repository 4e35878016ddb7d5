package locker

// Sharer is a [Locker] that lets several claims own a key at once. A locker
// that does not implement it gets no claim with a limit above 1.
type Sharer interface {
	// Shares reports whether the store keeps claims of the given limit, which
	// is 2 to NoLimit. It sends nothing and returns the same at all times, even
	// before Open. It is safe for concurrent use.
	Shares(limit int) bool
}
