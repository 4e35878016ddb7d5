package show

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
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
	f := newFollower(true)
	v := &visit{Order: "42"}
	ctx := context.WithValue(t.Context(), visitKey{}, followed{f, v})
	f.WaitEnd(ctx, guard.WaitInfo{}, guard.WaitResult{Blocker: guard.Holder{Traceparent: f.Traceparent(ctx)}})
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

func TestTheSecondToSellAnItemIsMarked(t *testing.T) {
	in := &instance{name: "app-1"}
	s := newShow(newHub(), &sale{cfg: config{mode: shop.ModeNone}})
	for i, order := range []string{"1", "2", "3"} {
		s.heard(answer{
			order: order, instance: in, at: time.Now(),
			AnswerBody: shop.AnswerBody{Code: shop.CodeSold, Receipt: &shop.Receipt{Left: 9 - i/2}},
		})
	}
	var doubles []string
	for _, v := range s.take().Visits {
		if v.Double != "" {
			doubles = append(doubles, v.Order+" after "+v.Double)
		}
	}
	if !slices.Equal(doubles, []string{"2 after 1"}) {
		t.Errorf("%q", doubles)
	}
	if u := s.take(); u.news() {
		t.Errorf("told twice: %+v", u)
	}
}

func TestRedisCanBeCutOffForAWhile(t *testing.T) {
	t.Parallel()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	go func() { // ends with upstream
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	b, err := startBreaker(t.Context(), "tcp", upstream.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	echo := func(c net.Conn) error {
		_, err := c.Write([]byte("ping"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 4))
		}
		return err
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := dial()
	defer before.Close()
	if err := echo(before); err != nil {
		t.Fatal(err)
	}
	b.cut(200 * time.Millisecond)
	if echo(before) == nil {
		t.Error("a connection has outlived the cut")
	}
	during := dial()
	defer during.Close()
	if echo(during) == nil {
		t.Error("a connection was made during the cut")
	}
	shop.Pause(t.Context(), 250*time.Millisecond)
	after := dial()
	defer after.Close()
	if err := echo(after); err != nil {
		t.Errorf("after the cut: %v", err)
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
