// Package leasekey holds the context keys of a lease. They are strings so that
// a *gin.Context, which looks up only strings of its own, can carry a lease
// too.
package leasekey

// Key is the key under which a context answers with its innermost *guard.Lease.
const Key = "github.com/go-lockguard/guard.lease"

// Endless is the key under which a *gin.Context answers with itself while it
// carries a lease, and nothing else does: of itself it never ends.
const Endless = "github.com/go-lockguard/guard.endless"

// self is gin.ContextKey: every *gin.Context answers with itself, a copy too.
const self = "_gin-gonic/gin/contextkey"
