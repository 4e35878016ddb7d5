//go:build !lockorder

// Package lockorder is the order in which the core locks its mutexes: a gate's,
// then a grant's, then the renewer's. A goroutine that holds one of them locks
// only one that is further to the right, and none of its own kind. All other
// mutexes of the core are innermost: nothing is locked under them. The one
// exception is the idle releasers' mutex, under which they lock that of their
// background.
//
// With the build tag lockorder each Lock checks that, and panics; scripts/test
// runs the tests of the core with it. Without, these are plain mutexes.
package lockorder

import "sync"

// Gate is the mutex of a gate, the first in the order.
type Gate = sync.Mutex

// Grant is the mutex of a grant.
type Grant = sync.Mutex

// Renewer is the mutex of the renewer, the last in the order.
type Renewer = sync.Mutex
