package locker

// Noder is a [Locker] whose keys live on several nodes, which fail one by one.
// While a node gives no answer, the guard goes on with the keys of the others.
// Without it, what one key meets counts for all.
type Noder interface {
	// Node names the node that has key, as far as the locker knows it now. It
	// asks nobody, and does not block. It is safe for concurrent use.
	Node(key string) string
}
