package redislocker

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// listener is a guard that counts what it hears.
type listener struct {
	lockerkit.Deaf

	heard   int
	granted string // the last owner and key
}

func (l *listener) Granted(key, owner string, _ locker.Offer) {
	l.heard++
	l.granted = owner + key
}
func (l *listener) Wanted(string) { l.heard++ }
func (l *listener) Wake(string)   { l.heard++ }
func (l *listener) WakeAll()      { l.heard++ }

func TestMessagesThatAreNotFromALockerAreIgnored(t *testing.T) {
	for _, text := range []string{
		"", "probe", "granted o 0 1 k", "Wanted k",
		"offered", "offered ", "offered 1000", "offered o 0 1 k", "offered x o 0 1 k", "offered -1 o 0 1 k",
		"offered 1 o 0 1", "offered 1 o x 1 k", "offered 1 o -1 1 k", "offered 1 o 0 x k",
		"wake k 1", strings.Repeat("offered ", 1000),
	} {
		w := &listener{}
		b := &inbox{waker: w}
		b.read(&redis.Message{Payload: text})
		b.read(&redis.Pong{})
		if w.heard > 0 {
			t.Errorf("%q is taken for a message", text)
		}
	}
}

// slowToClose is a connection that says goodbye to a server that is gone, as
// TLS does, while slow is set.
type slowToClose struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowToClose) Close() error {
	if c.slow.Load() {
		time.Sleep(5 * time.Second)
	}
	return c.Conn.Close()
}

// Each claim that waits asks whether messages are heard.
func TestNobodyWaitsWhileALostSubscriptionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		o := *rdb.Options()
		dial := o.Dialer
		var moved atomic.Bool // the primary; a subscription closes slowly then
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return slowToClose{conn, &moved}, err
		}
		theirs := redis.NewClient(&o)
		defer func() { _ = theirs.Close() }()
		conns := redisconn.New(&redisconn.Settings{Client: theirs})
		defer conns.Close()
		b := &inbox{client: conns, channel: "c", waker: &listener{}, life: opened(t)}
		b.where = func() string {
			if moved.Load() {
				return "new"
			}
			return "old"
		}
		b.open()
		time.Sleep(primaryEvery)
		if !b.open() {
			t.Error("the subscription is not confirmed")
		}
		moved.Store(true)
		time.Sleep(2 * primaryEvery) // the subscription is being closed
		start := time.Now()
		if b.open() || time.Since(start) > 0 {
			t.Errorf("a claim waited %v while the subscription was closed, or found it confirmed", time.Since(start))
		}
		moved.Store(false)
		time.Sleep(10 * time.Second) // it is closed
		b.life.End()
	})
}

// opened returns the life of a locker that is open.
func opened(t *testing.T) *lockerkit.Life {
	t.Helper()
	life := &lockerkit.Life{Store: "redislocker"}
	if err := life.Open(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return life
}

func FuzzAMessageNamesTheKeyWhatever(f *testing.F) {
	f.Add("k")
	f.Add("a b  c ")
	f.Add("\xff offered 1 o 0 1 k")
	f.Fuzz(func(t *testing.T, key string) {
		for _, text := range []string{"offered 0 OWNER 18446744073709551615 7 ", "offered 5000 OWNER 0 7 "} {
			l := &listener{}
			(&inbox{waker: l}).message(text + key)
			if l.granted != "OWNER"+key {
				t.Errorf("%q was granted, want OWNER and %q", l.granted, key)
			}
		}
	})
}
