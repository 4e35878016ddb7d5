package watermilllock_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The code of docs/recipes/partitions.md.

func perOrder(router *message.Router, rdb *redis.Client) (*guard.Guard, error) {
	g, err := guard.New(redislocker.New(rdb), guard.WithName("orders"), guard.WithLinger(time.Second))
	if err != nil {
		return nil, err
	}
	order := func(msg *message.Message) string { return guard.Key("order", msg.Metadata.Get("order")) }
	router.AddMiddleware(watermilllock.Key(g, order, watermilllock.WithWait(15*time.Second)))
	return g, nil
}

const orders = 8

// An owner is a process that consumes a partition. It handles one message at a
// time.
type owner struct {
	guard  *guard.Guard
	redis  *redistest.Proxy
	broker *gochannel.GoChannel
	nacks  *atomic.Int64
}

// newOwner starts an owner that handles messages by work until t ends.
func newOwner(t *testing.T, addr string, work message.NoPublishHandlerFunc) *owner {
	t.Helper()
	p := redistest.NewProxy(t, addr)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	nacks := new(atomic.Int64)
	router.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			made, err := next(msg)
			if err != nil {
				nacks.Add(1)
				t.Log(err)
			}
			return made, err
		}
	})
	g, err := perOrder(router, redistest.Client(t, p.Addr))
	if err != nil {
		t.Fatal(err)
	}
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router.AddNoPublisherHandler("work", topic, broker, work) //nolint:staticcheck // as the oldest version has it
	var ended sync.WaitGroup
	ended.Go(func() { // ends with the router
		if err := router.Run(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		ended.Wait()
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	<-router.Running()
	return &owner{g, p, broker, nacks}
}

// gets delivers a message of an order, and returns when it is acked.
func (o *owner) gets(t *testing.T, order int) {
	t.Helper()
	msg := message.NewMessage(watermill.NewUUID(), nil)
	msg.Metadata.Set("order", strconv.Itoa(order))
	if err := o.broker.Publish(topic, msg); err != nil {
		t.Error(err)
	}
}

// idle returns how many keys linger.
func (o *owner) idle() (n int) {
	for _, s := range o.guard.Snapshot(false) {
		for _, h := range s.Holds {
			if h.Idle {
				n++
			}
		}
	}
	return n
}

func (o *owner) waits() (n int) {
	for _, s := range o.guard.Snapshot(false) {
		n += len(s.Waits)
	}
	return n
}

func TestAfterARebalanceAMessageWaitsForOneHandOver(t *testing.T) {
	server := redistest.Start(t)
	var working [orders]atomic.Bool
	var began atomic.Pointer[time.Time]
	work := func(then func(order int)) message.NoPublishHandlerFunc {
		return func(msg *message.Message) error {
			now := time.Now()
			began.Store(&now)
			order, err := strconv.Atoi(msg.Metadata.Get("order"))
			if err != nil || working[order].Swap(true) {
				t.Errorf("two work on order %d at once, %v", order, err)
			}
			then(order)
			working[order].Store(false)
			return msg.Context().Err()
		}
	}
	var hangs atomic.Bool
	finish := make(chan struct{})
	old := newOwner(t, server.Addr, work(func(int) {
		if hangs.Load() {
			<-finish
		}
	}))
	next := newOwner(t, server.Addr, work(func(int) {}))
	next.gets(t, 0) // connects
	settle := func() {
		t.Helper()
		testguard.Eventually(t, "the keys linger", func() bool {
			for order := range orders {
				old.gets(t, order)
			}
			return old.idle() == orders
		})
	}

	settle()
	old.redis.Reset()
	const messages = 100
	for i := range messages {
		old.gets(t, i%orders)
	}
	t.Logf("%d messages of its own orders: %d requests", messages, old.redis.RoundTrips())
	if n := old.redis.RoundTrips(); n >= 2*messages {
		t.Errorf("%d messages cost %d requests, as if no key lingered", messages, n)
	}

	settle()
	hangs.Store(true)
	acked := make(chan struct{})
	go func() { defer close(acked); old.gets(t, 0) }() // ends when the message is done
	testguard.Eventually(t, "the last message begins", working[0].Load)
	var waits []time.Duration
	next.redis.Reset()
	for order := 1; order < orders; order++ { // nobody works on these
		start := time.Now()
		next.gets(t, order)
		waits = append(waits, began.Load().Sub(start))
	}
	slices.Sort(waits)
	t.Logf("idle: a message waits for %v in the median, %v at most; %d requests", waits[len(waits)/2],
		waits[len(waits)-1], next.redis.RoundTrips())

	got := make(chan struct{})
	go func() { defer close(got); next.gets(t, 0) }() // ends when the message is done
	testguard.Eventually(t, "the message waits", func() bool { return next.waits() > 0 })
	time.Sleep(200 * time.Millisecond) // without WithWait it would be nacked now
	ended := time.Now()
	close(finish)
	<-acked
	<-got
	last := began.Load().Sub(ended)
	t.Logf("worked on: a message waits for %v longer than the work", last)
	const handover = 10 * time.Second / 3 // if a process died at it
	if most := max(last, waits[len(waits)-1]); most > handover {
		t.Errorf("a message waited for %v", most)
	}
	if n := old.nacks.Load() + next.nacks.Load(); n > 0 {
		t.Errorf("%d messages were nacked", n)
	}
}
