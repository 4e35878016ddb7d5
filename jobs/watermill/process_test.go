package watermilllock_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	redisEnv = "GUARD_JOBTEST_REDIS"
	topic    = "orders"
	keys     = 3
)

// work is a worker process with two subscribers of one consumer group.
func work(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(4*time.Second), guard.WithObserver(ledger.Asking()))
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(watermilllock.Key(g, key))
	for i := range 2 {
		sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client:        rdb,
			ConsumerGroup: "payers",
			Consumer:      fmt.Sprint(jobtest.Name(), i),
			ClaimInterval: 500 * time.Millisecond,
			MaxIdleTime:   5 * time.Second, // then a consumer is taken for dead
		}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		router.AddNoPublisherHandler(fmt.Sprint("pay", i), topic, sub, func(msg *message.Message) error { //nolint:staticcheck // as the oldest version has it
			return ledger.Work(msg.Context(), key(msg), msg.UUID, func(ctx context.Context) error {
				if jobtest.Hangs() {
					return jobtest.Hang(ctx)
				}
				time.Sleep(5 * time.Millisecond)
				return nil
			})
		})
	}
	if err := router.Run(t.Context()); err != nil { // until it is killed
		t.Fatal(err)
	}
}

func publish(t *testing.T, pub message.Publisher, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		msg := message.NewMessage(fmt.Sprint("message", i), nil)
		msg.Metadata.Set("order", strconv.Itoa(i%keys))
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMessagesOfProcessesRunOneAtATimeAndNoneIsDropped(t *testing.T) {
	if jobtest.Name() != "" {
		work(t)
	}
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := redistest.Client(t, server.Addr)
	ledger, env := jobtest.Open(rdb), redisEnv+"="+server.Addr
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: rdb}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}

	// The victim takes a message and hangs in it with the key. The others find
	// the key held.
	publish(t, pub, 0, 1)
	victim := ledger.StartHanging(t, t.Name(), "victim", env)
	ledger.AwaitBegun(t, "victim")
	ledger.Start(t, t.Name(), "other", env)
	ledger.Start(t, t.Name(), "third", env)
	all := testsize.Pick(60, 20)
	publish(t, pub, 1, all)
	ledger.AwaitAskedByAny(t, guard.Key("order", "0"), 3, "other", "third") // two come back
	victim.Kill(t)
	ledger.Await(t, "each message is done", func(done map[string]int) bool { return len(done) == all })
	ledger.Check(t)
}
