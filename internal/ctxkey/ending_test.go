package ctxkey_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/ctxkey"
)

// carrier is like a *gin.Context. It has values and never ends.
type carrier struct {
	context.Context
	keys map[string]any
}

func (c *carrier) Value(key any) any {
	if name, ok := key.(string); ok {
		if name == "_gin-gonic/gin/contextkey" {
			return c
		}
		return c.keys[name]
	}
	return nil
}

func newCarrier() *carrier {
	c := &carrier{context.Background(), map[string]any{"a": 1}}
	c.keys[ctxkey.Endless] = c
	return c
}

type valueKey struct{}

func TestAnEndlessContextEndsWithTheLeaseItCarries(t *testing.T) {
	lost := errors.New("lost")
	for name, derive := range map[string]func(*testing.T, context.Context) context.Context{
		"itself": func(_ *testing.T, c context.Context) context.Context { return c },
		"with values": func(_ *testing.T, c context.Context) context.Context {
			return context.WithValue(c, valueKey{}, 1)
		},
		"with a time limit": func(t *testing.T, c context.Context) context.Context {
			t.Helper()
			ctx, cancel := context.WithTimeout(c, time.Hour)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, lose := context.WithCancelCause(t.Context())
				ctx := ctxkey.Ending(derive(t, newCarrier()), work)
				if ctx.Err() != nil || ctx.Value("a") != 1 {
					t.Errorf("got %v, value %v", ctx.Err(), ctx.Value("a"))
				}
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				if again := ctxkey.Ending(ctx, work); again != ctx {
					t.Error("wrapped twice")
				}
				lose(lost)
				synctest.Wait()
				if ctx.Err() == nil || child.Err() == nil || context.Cause(child) != lost { //nolint:errorlint // itself
					t.Errorf("ended with %v, %v, %v", ctx.Err(), child.Err(), context.Cause(child))
				}
			})
		})
	}
}

func TestItsOwnLimitStillHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(newCarrier(), time.Second)
		defer cancel()
		work, end := context.WithCancel(t.Context())
		defer end()
		<-ctxkey.Ending(ctx, work).Done()
	})
}

func TestOtherContextsStayAsTheyAre(t *testing.T) {
	work, end := context.WithCancel(t.Context())
	end()
	left := newCarrier() // the lease is over
	left.keys[ctxkey.Endless] = nil
	original := newCarrier()
	copied := &carrier{original.Context, original.keys}
	for name, ctx := range map[string]context.Context{
		"a request's":     t.Context(),
		"of another time": left,
		"a copy":          copied,
		"of a copy":       context.WithValue(copied, valueKey{}, 1),
	} {
		if got := ctxkey.Ending(ctx, work); got != ctx {
			t.Errorf("%s was changed", name)
		}
	}
}
