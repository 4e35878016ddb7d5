package zookeeperlocker

import "github.com/go-lockguard/guard/internal/lockerkit"

// state is what the locker keeps of a claim.
type state = lockerkit.Page[data]

// data is what a Book has of a claim for ZooKeeper.
type data struct {
	watched bool // a watch of the entry was begun; only calls of the claim use it
}
