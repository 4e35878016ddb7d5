package locker

// Listener is a [Locker] whose processes hear at once that others want their
// keys. Only such a locker gets claims that linger, see [Claim].Lingers.
type Listener interface {
	// Listens reports whether the messages of other processes are sure to
	// arrive here now. If they are not, Listens sees to it that they will. When
	// that changes, either way, the locker calls [Waker.WakeAll].
	//
	// Listens does not block, and calls nothing of the Waker. It is safe for
	// concurrent use. Before Open and after Close it reports false.
	Listens() bool
}
