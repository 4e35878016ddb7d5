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
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Messages that are published several times, on Redis Streams, with worker
// processes of which one is killed.

const (
	copies   = 3
	idleEnv  = "GUARD_JOBTEST_IDLE" // after which a message is taken from its consumer
	seenTime = 10 * time.Minute
)

func seenKey(msg *message.Message) string { return guard.Key("seen", string(msg.Payload)) }

// workOnce is a worker process with one subscriber, whose router has the
// middleware.
func workOnce(t *testing.T, chain func(*guard.Guard) []message.HandlerMiddleware) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(redisEnv)})
	ledger := jobtest.Open(rdb)
	g, err := guard.New(redislocker.New(rdb), guard.WithTTL(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(chain(g)...)
	idle, err := time.ParseDuration(os.Getenv(idleEnv))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: rdb, ConsumerGroup: "payers", Consumer: jobtest.Name(),
		ClaimInterval: 200 * time.Millisecond, MaxIdleTime: idle,
	}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddNoPublisherHandler("pay", topic, sub, func(msg *message.Message) error { //nolint:staticcheck // as the oldest version has it
		return ledger.Work(msg.Context(), seenKey(msg), string(msg.Payload), func(ctx context.Context) error {
			if jobtest.Hangs() {
				return jobtest.Hang(ctx)
			}
			return nil
		})
	})
	if err := router.Run(t.Context()); err != nil { // until it is killed
		t.Fatal(err)
	}
}

// publishCopies publishes the messages from..to several times each.
func publishCopies(t *testing.T, pub message.Publisher, from, to int) {
	t.Helper()
	for i := range copies * (to - from) {
		n := strconv.Itoa(from + i%(to-from))
		if err := pub.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte("message"+n))); err != nil {
			t.Fatal(err)
		}
	}
}

// copiesDone publishes copies of messages and has processes work on them. The
// first message is that of a worker that is killed in it. When all copies are
// acked, copiesDone returns how often each message was done.
func copiesDone(t *testing.T, all int) (times map[string]int) {
	t.Helper()
	server := redistest.Start(t)
	rdb := redistest.Client(t, server.Addr)
	ledger, env := jobtest.Open(rdb), redisEnv+"="+server.Addr
	never, soon := idleEnv+"=1h", idleEnv+"=1s"
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: rdb}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	publishCopies(t, pub, 0, 1)
	victim := ledger.StartHanging(t, t.Name(), "victim", env, never)
	ledger.AwaitBegun(t, "victim")
	ledger.Start(t, t.Name(), "other", env, never)
	publishCopies(t, pub, 1, all)
	ledger.AwaitBegun(t, "other")
	victim.Kill(t)
	// The dead worker's message must come back after its key is free: a
	// message whose key is held may be dropped.
	for rdb.Exists(t.Context(), "guard:{seen:message0}").Val() != 0 {
		time.Sleep(50 * time.Millisecond)
	}
	ledger.Start(t, t.Name(), "third", env, soon)
	ledger.Await(t, "all copies are acked", func(done map[string]int) bool {
		times = done
		return allAcked(t, rdb)
	})
	ledger.Check(t)
	return times
}

// allAcked reports whether the group has read and acked the whole stream.
func allAcked(t *testing.T, rdb *redis.Client) bool {
	t.Helper()
	groups, err := rdb.XInfoGroups(t.Context(), topic).Result()
	if err != nil || len(groups) != 1 {
		t.Fatalf("got %v, %v", groups, err)
	}
	last, err := rdb.XRevRangeN(t.Context(), topic, "+", "-", 1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return groups[0].Pending == 0 && groups[0].LastDeliveredID == last[0].ID
}

// expectOnce fails the test unless each message but the first was done once.
func expectOnce(t *testing.T, times map[string]int, all int) {
	t.Helper()
	for i := 1; i < all; i++ {
		if n := times[fmt.Sprint("message", i)]; n != 1 {
			t.Errorf("message %d was done %d times", i, n)
		}
	}
}

func TestDroppedCopiesAreDoneOnceByAllProcesses(t *testing.T) {
	if jobtest.Name() != "" {
		workOnce(t, func(g *guard.Guard) []message.HandlerMiddleware {
			done := g.With(guard.WithMinHold(seenTime, guard.OnSuccess))
			return []message.HandlerMiddleware{watermilllock.Key(done, seenKey, watermilllock.WithDrop())}
		})
	}
	t.Parallel() // it mostly waits
	all := testsize.Pick(30, 10)
	times := copiesDone(t, all)
	expectOnce(t, times, all)
	if n := times["message0"]; n != 1 {
		t.Errorf("the message of the dead worker was done %d times: its lease must not count as success", n)
	}
}

// As NewExpiringKeyRepository says, the message of the dead worker is lost.
func TestADeduplicatorOfProcessesRemembersWhatADeadWorkerSaw(t *testing.T) {
	if jobtest.Name() != "" {
		workOnce(t, func(g *guard.Guard) []message.HandlerMiddleware {
			seen := &middleware.Deduplicator{
				KeyFactory: middleware.NewMessageHasherSHA256(1 << 20),
				Repository: watermilllock.NewExpiringKeyRepository(g, seenTime),
				Timeout:    time.Minute,
			}
			return []message.HandlerMiddleware{watermilllock.Key(g, seenKey), seen.Middleware}
		})
	}
	t.Parallel() // it mostly waits
	all := testsize.Pick(30, 10)
	times := copiesDone(t, all)
	expectOnce(t, times, all)
	if n := times["message0"]; n != 0 {
		t.Errorf("the message of the dead worker was done %d times: the package says that it is lost", n)
	}
}
