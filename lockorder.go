//go:build !lockorder

package guard

import "sync"

// The order of locks: a gate's mutex, then a grant's, then the renewer's. Whoever holds one of them locks only one that is
// further to the right, and none of its own kind. All other mutexes of the package are innermost: nothing is locked under
// them. With the build tag lockorder, which scripts/test runs the tests of the core with, each Lock checks that.
type (
	gateMutex    = sync.Mutex
	grantMutex   = sync.Mutex
	renewerMutex = sync.Mutex
)
