package guard_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// A killed holder goes when its lease ends at the latest. The same holds for a
// holder whose pace is unknown in this process.
func TestHeldError_WithoutAPaceTheLeaseSaysWhenToTryAgain(t *testing.T) {
	for _, left := range []time.Duration{0, 9100 * time.Millisecond} {
		if got := (&guard.HeldError{Remaining: left}).RetryAfter(); got != left {
			t.Errorf("%v left: got %v", left, got)
		}
	}
}

func TestErrMaxHold_NamesItsOption(t *testing.T) {
	if text := guard.ErrMaxHold.Error(); !strings.Contains(text, "WithMaxHold") {
		t.Errorf("got %q", text)
	}
}

func TestDo_RefusalsSayWhatToKnowAndDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(1500*time.Millisecond))
		l := must(b.other.Acquire(t.Context(), key))
		defer func() { _ = l.Release(t.Context()) }()
		_, once := b.TryAcquire(t.Context(), key)
		_, bare := guard.FencingToken(t.Context())
		for err, says := range map[error]string{
			b.Do(t.Context(), key, nop): "the key is held by another holder, after waiting 1.5s",
			once:                        "the key is held by another holder",
			b.Do(t.Context(), "", nop): "guard: invalid key: it is empty, as guard.Key makes it of a " +
				"part that is empty",
			bare: "guard: no lease in this context: pass on the ctx that the function got",
		} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want it to say %q", err, says)
			}
		}
		if strings.Contains(once.Error(), "waiting") {
			t.Errorf("one attempt says %q", once)
		}
		inner := l.Context()
		in := must(b.other.Acquire(inner, key)) // takes the place inside
		defer func() { _ = in.Release(t.Context()) }()
		short := b.other.With(guard.WithMaxWait(time.Second))
		if err := short.Do(inner, key, nop); err == nil || !strings.Contains(err.Error(), "after waiting 1s") {
			t.Errorf("inside a lease: %v", err)
		}
	})
}
