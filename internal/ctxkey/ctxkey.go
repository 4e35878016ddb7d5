// Package ctxkey holds the context keys of a lease. They are strings so that
// a *gin.Context can carry a lease too, because it looks up only string keys in
// itself.
package ctxkey

// Key is the key under which a context answers with its innermost *guard.Lease.
const Key = "github.com/go-lockguard/guard.lease"

// Unguarded is the key under which a context answers with true if it belongs to
// a function that runs without a lease, see guard.WithFailOpen.
const Unguarded = "github.com/go-lockguard/guard.unguarded"

// Endless is the key under which a *gin.Context returns itself while it carries
// a lease. No other context has a value for it. A *gin.Context never ends by
// itself.
const Endless = "github.com/go-lockguard/guard.endless"

// self is gin.ContextKey. Every *gin.Context returns itself for it, and so does
// a copy.
const self = "_gin-gonic/gin/contextkey"
