package guard

import (
	"testing"
	"time"
)

// A wake-up can end a pause without having been its reason, so a key may be acquired while a long pause is planned.
func TestAPauseThatWasCutShortIsNotInherited(t *testing.T) {
	now, b := time.Now(), backoff{first: time.Second, most: time.Minute}
	gt := &gate{key: "k"}
	w := &waiter{}
	if first, err := gt.join(w, nil); !first || err != nil {
		t.Fatal(first, err)
	}
	gt.missed(&HeldError{Remaining: time.Hour}, nil, true, b, now)
	if d := gt.due(now); d < 30*time.Second {
		t.Fatalf("pause %v of a queued waiter", d)
	}
	gt.hold(&grant{gate: gt})
	gt.pass(w)
	if d := gt.due(now); d > 0 {
		t.Errorf("the next call would pause for %v", d)
	}
}

// One wake-up is good for one try.
func TestAWakeUpThatATryWasMadeForIsSpent(t *testing.T) {
	gt := &gate{key: "k"}
	_, _ = gt.join(&waiter{}, nil)
	pokes := gt.pokes()
	if !gt.wake() {
		t.Fatal("nobody waits")
	}
	gt.beginTry(time.Now())
	select {
	case <-pokes:
		t.Error("would cut the next pause short")
	default:
	}
	gt.wake()
	select {
	case <-pokes:
	default:
		t.Error("a wake-up during the try is lost")
	}
}
