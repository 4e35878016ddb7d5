package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// A *gin.Context never ends by itself. The work that a verb starts on it must
// end all the same.
func TestWorkOnTheContextItselfEndsWithTheLeaseAndTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l *memlocker.Locker, leave func())
		want error
	}{
		"lease lost":  {func(l *memlocker.Locker, _ func()) { l.Lose(guard.Key("all")) }, guard.ErrLeaseLost},
		"client gone": {func(_ *memlocker.Locker, leave func()) { leave() }, context.Canceled},
	} {
		for derived, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"itself": func(c context.Context) (context.Context, context.CancelFunc) { return c, func() {} },
			"with timeout": func(c context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(c, time.Hour)
			},
		} {
			t.Run(name+", "+derived, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					locker := memlocker.New()
					g, err := guard.New(locker, guard.WithMaxWait(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
					hold(t, g, "busy")
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					serve(buy("42").WithContext(ctx), lockmw.Static(g, "all"), func(gc *gin.Context) {
						on, cancel := derive(gc)
						defer cancel()
						waited := make(chan error, 1)
						go func() { waited <- g.Do(on, "busy", func(context.Context) error { return nil }) }()
						err := g.Do(on, "other", func(ctx context.Context) error {
							synctest.Wait()
							c.end(locker, leave)
							<-ctx.Done()
							return context.Cause(ctx)
						})
						if !errors.Is(err, c.want) {
							t.Errorf("the work ended with %v, want %v", err, c.want)
						}
						if err := <-waited; !errors.Is(err, guard.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
							t.Errorf("the wait ended with %v", err)
						}
					})
				})
			})
		}
	}
}
