package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A call expects the turns in line and its own. Shared turns come together.
func TestALineExpectsItsTurnsAndOneMore(t *testing.T) {
	alone, shared := settings(), settings()
	shared.Limit = locker.NoLimit
	var l line
	now := time.Now()
	for range paceTrust {
		l.pace.add(now, 10*time.Millisecond)
	}
	for i, c := range []struct {
		next *Settings
		want time.Duration
	}{
		{nil, 10 * time.Millisecond},
		{&alone, 20 * time.Millisecond},
		{&alone, 30 * time.Millisecond},
		{&shared, 40 * time.Millisecond},
		{&shared, 40 * time.Millisecond},
	} {
		if c.next != nil {
			l.push(&Turn{set: c.next})
		}
		if got := l.expect(); got != c.want {
			t.Errorf("%d in line: expected %v, want %v", i, got, c.want)
		}
	}
}
