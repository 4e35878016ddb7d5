package show

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/go-lockguard/guard"
)

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestAWaiterIsToldWhoseGrantWasInItsWay(t *testing.T) {
	f := newFollower(t.Context(), instanceConfig{})
	v := &visit{Order: "42"}
	ctx := context.WithValue(t.Context(), visitKey{}, v)
	f.WaitEnd(ctx, guard.WaitInfo{Key: "stock:lamp"},
		guard.WaitResult{Blocker: guard.Holder{Traceparent: f.Traceparent(ctx)}})
	if v.Behind != "42" {
		t.Errorf("behind %q, want 42", v.Behind)
	}
	for _, other := range []string{"", "00-a-b-01", "what", "00-0af7651916cd43dd8448eb211c80319c-zz-01"} {
		if got := orderOf(other); other != "00-a-b-01" && got != "" {
			t.Errorf("%q is order %q", other, got)
		}
	}
	if got := f.Traceparent(t.Context()); got != "" {
		t.Errorf("nobody's traceparent is %q", got)
	}
}

func TestWebStandsAloneOrWithAnAddress(t *testing.T) {
	for _, c := range []struct {
		args []string
		addr string
	}{
		{[]string{"-web"}, ""},
		{[]string{"-web", "-stock", "5"}, ""},
		{[]string{"-web", "127.0.0.1:8080", "-stock", "5"}, "127.0.0.1:8080"},
		{[]string{"--web=localhost:0"}, "localhost:0"},
		{[]string{"-stock", "5", "-web", "[::1]:9"}, "[::1]:9"},
	} {
		got, err := parseFlags(c.args)
		if err != nil || !got.web || got.addr != c.addr {
			t.Errorf("%q: %v, web %v at %q, want %q", c.args, err, got.web, got.addr, c.addr)
		}
	}
}
