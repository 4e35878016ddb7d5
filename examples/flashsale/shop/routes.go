package shop

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// Mode is how the instances keep out of each other's way.
type Mode string

// The modes.
const (
	ModeNone   Mode = "none"   // they do not
	ModeLock   Mode = "lock"   // a guard on the route
	ModeFence  Mode = "fence"  // a guard on the route, and its fencing token checked by the write
	ModeAtomic Mode = "atomic" // no guard and no price call: the whole step is one script
)

// Modes are all of them.
var Modes = []Mode{ModeNone, ModeLock, ModeFence, ModeAtomic}

// Locked says whether the route has a guard.
func (m Mode) Locked() bool { return m == ModeLock || m == ModeFence }

// AddRoutes is the app: what you would write for a service of your own, which
// has one of these lines.
func AddRoutes(r gin.IRoutes, g *guard.Guard, s *Shop, mode Mode, how Style) {
	addPage(r, g, s, mode)
	switch {
	case mode.Locked() && how != StyleRoute:
		r.POST("/skus/:sku/deduct", handle(Guarded(g, s, how)))
	case mode.Locked():
		r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), handle(s.Deduct))
	case mode == ModeAtomic:
		r.POST("/skus/:sku/deduct", handle(s.DeductAtomically))
	default:
		r.POST("/skus/:sku/deduct", handle(s.Deduct))
	}
}

// handle turns a step of the shop into a gin handler.
func handle(step Step) gin.HandlerFunc {
	return func(c *gin.Context) {
		sold, err := step(c.Request.Context(), c.Param("sku"), c.GetHeader(OrderHeader))
		if err != nil {
			refuse(c, err)
			return
		}
		c.JSON(http.StatusOK, AnswerBody{Code: CodeSold, Receipt: &sold})
	}
}

// refuse answers why a request got nothing.
func refuse(c *gin.Context, err error) {
	var late *fence.LateWriteError
	switch {
	case errors.Is(err, ErrSoldOut):
		c.JSON(http.StatusConflict, AnswerBody{Code: CodeSoldOut})
	case errors.As(err, &late):
		c.JSON(http.StatusConflict, AnswerBody{Code: CodeLateWrite, Token: late.Token, Newest: late.Newest})
	case lockmw.Abort(c, err): // a lost lease, say: the same answer as from the middleware
	default:
		c.JSON(http.StatusInternalServerError, AnswerBody{Code: CodeFailed, Detail: err.Error()})
	}
}

// OrderHeader has the buyer's id of the order.
const OrderHeader = "X-Order-ID"

// Codes of an answer.
const (
	CodeSold      = "sold"
	CodeSoldOut   = "sold_out"
	CodeLateWrite = "late_write_refused"
	CodeFailed    = "failed"
	CodeLockLost  = "lock_lost" // from the guard: the handler ran, its outcome is unknown
)

// AnswerBody is the body of an answer; those of the guard have a code too.
type AnswerBody struct {
	Code    string   `json:"code"`
	Receipt *Receipt `json:"receipt,omitempty"`
	Token   uint64   `json:"token,omitempty"`  // of the late write
	Newest  uint64   `json:"newest,omitempty"` // the token that it came after
	Detail  string   `json:"detail,omitempty"`
}
