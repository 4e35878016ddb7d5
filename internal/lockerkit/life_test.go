package lockerkit_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func TestCloseGoesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockerkit.Life{Store: "mystore"}
		if err := l.Open(ready); err != nil {
			t.Fatal(err)
		}
		var order []string
		l.Serve(func() {
			<-l.Context().Done()
			order = append(order, "service")
		})
		if err := l.Enter(); err != nil {
			t.Fatal(err)
		}
		l.Go(func() { // outlives its call, and Close waits for it
			time.Sleep(time.Second)
			order = append(order, "call")
		})
		l.Leave()
		if err := l.Close(t.Context(), func() {
			l.Wait()
			order = append(order, "leave")
			l.End()
		}); err != nil {
			t.Error(err)
		}
		if want := []string{"call", "leave", "service"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}
