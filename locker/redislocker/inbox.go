package redislocker

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

// inbox is where other instances tell this one that a key is free or wanted: one subscription, on a connection of its
// own, from the first wait until Close. What it hears are hints; the locker never relies on them.
type inbox struct {
	client  redis.UniversalClient
	channel string
	waker   guard.Waker
	passOn  func(key string)

	live   atomic.Bool     // the server has confirmed the subscription
	ctx    context.Context // of subscribing
	cancel context.CancelFunc

	mu     sync.Mutex    // guards what follows; never held across I/O
	sub    *redis.PubSub // nil before open
	closed bool
	done   chan struct{} // closed when the goroutine ends
}

// A message is "wanted KEY", or for the one who is woken "N free KEY", where N instances wait behind it.
const (
	wantedWord = "wanted "
	freeWord   = "free "
)

func newInbox(client redis.UniversalClient, channel string, w guard.Waker, passOn func(string)) *inbox {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // serves every caller, until close
	return &inbox{client: client, channel: channel, waker: w, passOn: passOn, ctx: ctx, cancel: cancel}
}

// open subscribes in the background, once.
func (b *inbox) open() {
	if b.live.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sub != nil || b.closed {
		return
	}
	b.sub = b.client.Subscribe(b.ctx) // to nothing yet: sends nothing
	b.done = make(chan struct{})
	go b.run(b.sub) // ends when close closes the subscription
}

func (b *inbox) run(sub *redis.PubSub) {
	defer close(b.done)
	_ = sub.Subscribe(b.ctx, b.channel) // if it fails, it is done again with the next connection
	first, err := sub.Receive(b.ctx)
	var refused redis.Error
	if errors.As(err, &refused) {
		slog.Warn("redislocker: no wake-ups from other instances, waiters look again by themselves", "error", err)
		return
	}
	if err == nil {
		b.read(first)
	}
	for event := range sub.ChannelWithSubscriptions() {
		b.read(event)
	}
}

// read hands a message on. Each confirmation of the subscription, the first and those after a lost connection, wakes
// everybody: what was sent before it is lost.
func (b *inbox) read(event any) {
	switch e := event.(type) {
	case *redis.Subscription:
		b.live.Store(true)
		b.waker.WakeAll()
	case *redis.Message:
		b.message(e.Payload)
	}
}

func (b *inbox) message(text string) {
	if key, ok := strings.CutPrefix(text, wantedWord); ok {
		b.waker.Wanted(key)
		return
	}
	n, rest, _ := strings.Cut(text, " ")
	key, ok := strings.CutPrefix(rest, freeWord)
	waiting, err := strconv.Atoi(n)
	if !ok || key == "" || err != nil {
		return // not from a locker
	}
	if !b.waker.Wake(key, waiting) {
		b.passOn(key)
	}
}

// close ends the subscription and joins the goroutine.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	sub, done := b.sub, b.done
	b.mu.Unlock()
	b.cancel()
	if sub != nil {
		_ = sub.Close()
		<-done
	}
}
