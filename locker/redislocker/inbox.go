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

	"github.com/go-lockguard/guard/internal/lockerkit"
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

	life  *lockerkit.Life // of the goroutine that subscribes
	where func() string   // where the primary is, under Sentinel; otherwise nil

	opened  sync.Once   // begins the goroutine
	live    atomic.Bool // the server has confirmed the subscription, and it was not lost since
	refused sync.Once   // logs a refusal once
}

const (
	pingAfter      = 3 * time.Second        // silence of a subscription before a ping
	primaryEvery   = 500 * time.Millisecond // between two looks at where the primary is
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
	wantedWord   = "wanted"
	offeredWord  = "offered"
	revokedWord  = "revoked"
	recordedWord = "recorded"
)

// open subscribes in the background, once. heard says that the subscription is
// confirmed. It is called within a call of the life.
func (b *inbox) open() (heard bool) {
	if heard = b.live.Load(); !heard {
		b.opened.Do(func() { b.life.Serve(b.receiveAll) }) // ends with the life
	}
	return heard
}

// Listens implements [locker.Locker]. The first call subscribes.
func (l *Locker) Listens() bool {
	if l.life.Enter() != nil {
		return false
	}
	defer l.life.Leave()
	return l.inbox.open()
}

// receiveAll receives messages, over one subscription after the other.
func (b *inbox) receiveAll() {
	for ctx := b.life.Context(); ctx.Err() == nil; {
		b.receive(ctx)
	}
}

// receive reads messages until the subscription has to be replaced. That is
// when it is silent for twice pingAfter and does not answer a ping in between,
// because the network may have forgotten it. It is also when the server is not
// the primary any more, because messages do not get there.
func (b *inbox) receive(ctx context.Context) {
	sub := b.client.Subscribe(ctx) // to nothing yet: sends nothing
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = sub.Close()
	})
	defer func() {
		b.lost(ctx)
		_ = sub.Close() // may wait for the network
		if !stop() {
			<-closed
		}
	}()
	_ = sub.Subscribe(ctx, b.channel) // if it fails, the next read subscribes again
	look, at := pingAfter, ""         // at is where the primary was when the subscription was confirmed
	if b.where != nil {
		look = primaryEvery
	}
	for silent := time.Duration(0); silent < 2*pingAfter && (at == "" || b.where() == at); {
		event, err := sub.ReceiveTimeout(ctx, look)
		var timeout net.Error
		switch {
		case err == nil:
			silent = 0
			if _, ok := event.(*redis.Subscription); ok && b.where != nil {
				at = b.where()
			}
			b.read(event)
		case ctx.Err() != nil:
			return
		case errors.As(err, &timeout) && timeout.Timeout():
			if silent += look; silent%pingAfter == 0 {
				_ = sub.Ping(ctx)
			}
		default:
			b.failed(ctx, err)
		}
	}
}

// lost records that messages do not arrive, and reports whether they did until
// now. It wakes all waiters, because claims that rest must look at the usual
// pace again.
func (b *inbox) lost(ctx context.Context) bool {
	was := b.live.Swap(false)
	if was && ctx.Err() == nil {
		b.waker.WakeAll()
	}
	return was
}

// failed pauses after an error, before the next read connects again. It does
// not pause after the first error of a confirmed subscription, because go-redis
// has connected again by then.
func (b *inbox) failed(ctx context.Context, err error) {
	pause := reconnectPause
	if b.lost(ctx) {
		pause = 0
	}
	var refused redis.Error
	if errors.As(err, &refused) {
		b.refused.Do(func() {
			slog.Warn("redislocker: no wake-ups from other instances, waiters look again by themselves", "error", err)
		})
		pause = refusedPause
	}
	lockerkit.Pause(pause, ctx.Done())
}

// read passes an event on. Each confirmation of the subscription wakes all
// waiters, because earlier messages are lost. This holds for the first
// confirmation and for those after a lost connection.
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
	word, left, ok := strings.Cut(text, " ")
	if !ok {
		return
	}
	switch word {
	case wantedWord:
		b.waker.Wanted(left)
	case revokedWord:
		owner, key, _ := strings.Cut(left, " ")
		b.waker.Revoked(key, owner)
	case recordedWord:
		if key, owner, value, ok := readRecorded(left); ok {
			b.waker.Recorded(key, owner, value)
		}
	case offeredWord:
		if key, owner, o, ok := readOffer(left); ok {
			b.waker.Granted(key, owner, o)
		}
	}
}

// readOffer reads an offered message behind its word. ok is false if the
// message does not come from a locker.
func readOffer(text string) (key, owner string, o locker.Offer, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) != 5 {
		return "", "", o, false
	}
	length, err := strconv.ParseUint(parts[0], 10, 32)
	token, err2 := parseToken(parts[2])
	waiting, err3 := strconv.Atoi(parts[3])
	o = locker.Offer{Length: time.Duration(length) * time.Millisecond, Token: token, Waiting: waiting}
	return parts[4], parts[1], o, err == nil && err2 == nil && err3 == nil
}
