package lockerkit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ready() error { return nil }

func TestNobodyEntersBeforeOpenOrAfterClose(t *testing.T) {
	g := lockerkit.Life{Store: "mystore"}
	if err := g.Enter(); !errors.Is(err, locker.ErrInvalidOption) ||
		!strings.Contains(err.Error(), "mystore: the locker is not open") {
		t.Errorf("Enter before Open: %v", err)
	}
	if err := g.Close(t.Context(), func() { t.Error("shut down, though it is not open") }); err != nil {
		t.Errorf("Close before Open: %v", err)
	}
	if err := g.Open(ready); err != nil {
		t.Fatal(err)
	}
	if err := g.Open(ready); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("a second Open: %v, want ErrInvalidOption", err)
	}
	if err := g.Enter(); err != nil {
		t.Errorf("Enter: %v", err)
	}
	g.Leave()
	downs := 0
	for range 2 {
		if err := g.Close(t.Context(), func() { downs++ }); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := g.Enter(); !errors.Is(err, locker.ErrClosed) || downs != 1 {
		t.Errorf("Enter after Close: %v, want ErrClosed; shut down %d times, want once", err, downs)
	}
	if err := g.Open(ready); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("Open after Close: %v, want ErrInvalidOption", err)
	}
}

func TestAnOpenThatFailsStaysClosed(t *testing.T) {
	g := lockerkit.Life{Store: "mystore"}
	if err := g.Open(func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("Open: %v, want the error of ready", err)
	}
	for _, err := range []error{g.Open(ready), g.Enter()} {
		if !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("after an Open that failed: %v, want ErrInvalidOption", err)
		}
	}
}

func TestCloseWaitsForCallsAndForWhatOutlivesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lockerkit.Life{Store: "mystore"}
		if err := errors.Join(g.Open(ready), g.Enter()); err != nil {
			t.Fatal(err)
		}
		var outlived atomic.Bool
		g.Go(func() {
			time.Sleep(time.Second)
			outlived.Store(true)
		})
		g.Leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Close(ctx, g.Wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close during a call: %v, want its ctx's error", err)
		}
		if err := g.Close(t.Context(), g.Wait); err != nil || !outlived.Load() {
			t.Errorf("Close: %v, before the call had ended: %v", err, !outlived.Load())
		}
	})
}

func TestNilIsSeenInAnInterface(t *testing.T) {
	var none *bytes.Buffer
	for v, want := range map[any]bool{nil: true, none: true, new(bytes.Buffer): false, 0: false, "": false} {
		if got := lockerkit.IsNil(v); got != want {
			t.Errorf("IsNil(%T %v): %v", v, v, got)
		}
	}
}

func TestIDsAreAsLongAsOwnersDifferAndBeginWithNoDash(t *testing.T) {
	seen := make(map[string]bool)
	for range 5000 {
		id := lockerkit.NewID()
		if len(id) != locker.OwnerLen || seen[id] || id[0] == '-' {
			t.Fatalf("ID %q", id)
		}
		seen[id] = true
	}
}

func TestAHolderIsDescribedWhateverItSaysOfItself(t *testing.T) {
	for _, since := range []time.Time{time.Unix(1, 0).UTC(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		c := &locker.Claim{Holder: locker.Holder{Name: "me", Since: since}}
		h := lockerkit.HolderOf(lockerkit.Describe(c, "here"))
		if h.Name != "me" || h.Instance != "here" || since.Year() < 10000 && !h.Since.Equal(since) {
			t.Errorf("%+v, want %+v", h, c.Holder)
		}
	}
	if h := lockerkit.HolderOf([]byte(`{"name": 1}`)); h != (locker.Holder{}) {
		t.Errorf("a stranger's text: %+v, want nobody", h)
	}
}

// Planted: nothing is forgotten, or all.
func TestWhatIsRememberedByKeyIsBounded(t *testing.T) {
	const most = 10_000
	m := map[string]int{}
	for i := range most + 100 {
		lockerkit.MakeRoom(m)
		m[strconv.Itoa(i)] = i
	}
	if len(m) != most {
		t.Errorf("%d keys are remembered, want %d", len(m), most)
	}
}
