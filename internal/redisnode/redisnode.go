// Package redisnode is what package redlock tells each of its redislockers, and
// users cannot.
package redisnode

// Node makes a redislocker one node of several that are one locker to others.
type Node struct {
	// Instance is the locker's id, the same on all nodes: as long as an owner
	// id.
	Instance string

	// Admit is given what the server says about itself (INFO server) on each
	// new connection, the inbox's included, before anything else uses it, or
	// the error instead. An error refuses the connection.
	Admit func(info string, err error) error
}
