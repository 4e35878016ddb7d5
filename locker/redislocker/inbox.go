package redislocker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// inbox receives the messages of other instances about keys that are free or
// wanted. It has one subscription on a connection of its own, from the first
// wait until Close. Its messages are hints, and the locker never relies on
// them.
type inbox struct {
	client  *redisconn.Conns
	channel string
	waker   locker.Waker

	live   atomic.Bool     // the server has confirmed the subscription, and it was not lost since
	ctx    context.Context // of subscribing
	cancel context.CancelFunc

	refused sync.Once // logs a refusal once

	where func() string // where the primary is, under Sentinel; otherwise nil
	at    string        // where it was when the subscription was confirmed; used by the goroutine only

	mu   sync.Mutex    // guards sub, for close, and done; never held across I/O
	sub  *redis.PubSub // replaced by the goroutine only, which reads it without mu
	done chan struct{} // closed when the goroutine ends; nil before open
}

const (
	quiet          = 3 * time.Second        // silence of a subscription before a ping
	glance         = 500 * time.Millisecond // between two looks at where the primary is
	reconnectPause = 100 * time.Millisecond // after a lost connection
	refusedPause   = 10 * time.Second       // after the server has refused to subscribe
)

// A message is one of these. OWNER has the key now, N claims wait behind it,
// and TOKEN is 0 if it wants none.
//
//	wanted KEY                      for the holder: somebody waits
//	offered MS OWNER TOKEN N KEY    OWNER has the key for MS
//	revoked OWNER KEY               OWNER was made to lose the key
//	recorded OWNER KEY\nRECORD      OWNER has left the queue because of RECORD, "" if it is too long for a message
const (
	wantedWord   = "wanted "
	offeredWord  = "offered "
	revokedWord  = "revoked "
	recordedWord = "recorded "
)

func newInbox(client *redisconn.Conns, channel string, w locker.Waker) *inbox {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // serves every caller, until close
	return &inbox{client: client, channel: channel, waker: w, ctx: ctx, cancel: cancel}
}

// open subscribes in the background, once. heard says that the subscription is
// confirmed.
func (b *inbox) open() (heard bool) {
	if b.live.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil && b.ctx.Err() == nil {
		b.done = make(chan struct{})
		go b.run() // ends when close closes the subscription
	}
	return b.live.Load()
}

// Listens implements [locker.Locker]. The first call subscribes.
func (l *Locker) Listens() bool { return l.inbox != nil && l.inbox.open() }

// run receives messages until close. It replaces a subscription that is silent
// for twice quiet and does not answer a ping in between. The network may have
// forgotten such a subscription.
func (b *inbox) run() {
	defer close(b.done)
	for b.renew() {
		b.receive()
	}
}

// renew subscribes on a new connection. It reports false once the inbox is
// closed.
func (b *inbox) renew() bool {
	if b.sub != nil {
		_ = b.sub.Close() // may wait for the network, so without the mutex
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.sub = b.client.Subscribe(b.ctx) // to nothing yet: sends nothing
	return true
}

// receive reads messages until the subscription has to be replaced.
func (b *inbox) receive() {
	_ = b.sub.Subscribe(b.ctx, b.channel) // if it fails, the next read subscribes again
	look := quiet
	if b.where != nil {
		look, b.at = glance, ""
	}
	defer b.lost()
	for silent := time.Duration(0); silent < 2*quiet && !b.primaryMoved(); {
		event, err := b.sub.ReceiveTimeout(b.ctx, look)
		var timeout net.Error
		switch {
		case err == nil:
			silent = 0
			b.read(event)
		case b.ctx.Err() != nil:
			return
		case errors.As(err, &timeout) && timeout.Timeout():
			if silent += look; silent%quiet == 0 {
				_ = b.sub.Ping(b.ctx)
			}
		default:
			b.failed(err)
		}
	}
}

// primaryMoved reports whether the subscription is with a server that is not
// the primary any more. Messages do not get there.
func (b *inbox) primaryMoved() bool { return b.at != "" && b.where() != b.at }

// lost records that messages do not arrive, and reports whether they did until
// now. It wakes all waiters, because claims that rest must look at the usual
// pace again.
func (b *inbox) lost() bool {
	was := b.live.Swap(false)
	if was && b.ctx.Err() == nil {
		b.waker.WakeAll()
	}
	return was
}

// failed pauses after an error, before the next read connects again. It does
// not pause after the first error of a confirmed subscription, because go-redis
// has connected again by then.
func (b *inbox) failed(err error) {
	pause := reconnectPause
	if b.lost() {
		pause = 0
	}
	var refused redis.Error
	if errors.As(err, &refused) {
		b.refused.Do(func() {
			slog.Warn("redislocker: no wake-ups from other instances, waiters look again by themselves", "error", err)
		})
		pause = refusedPause
	}
	timer := time.NewTimer(limits.Apart(pause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
	}
}

// read passes an event on. Each confirmation of the subscription wakes all
// waiters, because earlier messages are lost. This holds for the first
// confirmation and for those after a lost connection.
func (b *inbox) read(event any) {
	switch e := event.(type) {
	case *redis.Subscription:
		if b.where != nil {
			b.at = b.where()
		}
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
	if left, ok := strings.CutPrefix(text, revokedWord); ok {
		owner, key, _ := strings.Cut(left, " ")
		b.waker.Revoked(key, owner)
		return
	}
	if key, owner, value, ok := readRecorded(text); ok {
		b.waker.Recorded(key, owner, value)
		return
	}
	if key, owner, o, ok := readOffer(text); ok {
		b.waker.Granted(key, owner, o)
	}
}

// readOffer reads an offered message. ok is false if the message does not come
// from a locker.
func readOffer(text string) (key, owner string, o locker.Offer, ok bool) {
	left, ok := strings.CutPrefix(text, offeredWord)
	parts := strings.SplitN(left, " ", 5)
	if !ok || len(parts) != 5 {
		return "", "", o, false
	}
	length, err := strconv.ParseUint(parts[0], 10, 32)
	token, err2 := parseToken(parts[2])
	waiting, err3 := strconv.Atoi(parts[3])
	o = locker.Offer{Length: time.Duration(length) * time.Millisecond, Token: token, Waiting: waiting}
	return parts[4], parts[1], o, err == nil && err2 == nil && err3 == nil
}

// close ends the subscription and waits for the goroutine.
func (b *inbox) close() {
	b.cancel()
	b.mu.Lock()
	sub, done := b.sub, b.done
	b.mu.Unlock()
	if sub != nil {
		_ = sub.Close()
	}
	if done != nil {
		<-done
	}
}
