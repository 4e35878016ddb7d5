// Messages from a queue, here a Redis stream: any number of consumers, each
// order worked on by one of them at a time, and in pieces that may be delivered
// twice.
//
//	REDIS=localhost:6379 go run ./examples/consumer
//	redis-cli XADD orders:events '*' order 7 event paid
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func main() {
	addr := os.Getenv("REDIS")
	if addr == "" {
		addr = "localhost:6379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	// A busy order must not keep the consumer from all the others for long: its
	// message comes again.
	g, err := guard.New(redislocker.New(rdb), guard.WithName("orders"), guard.WithMaxWait(500*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = rdb.XGroupCreateMkStream(ctx, stream, group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		log.Fatal(err)
	}
	host, _ := os.Hostname()
	c := consumer{rdb: rdb, guard: g, name: host, again: 5 * time.Second, work: book{rdb}.enter}
	// a message that was begun is worked on to its end, or until work sees ctx
	log.Println("consuming until", c.run(ctx))

	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = g.Close(closing)
}

// A book has the events of each order, each once.
type book struct{ rdb redis.UniversalClient }

// enter adds m's event to the order, unless it is there already. It reads and
// writes: that is what the lock is for.
func (b book) enter(ctx context.Context, m redis.XMessage) error {
	order, _ := m.Values["order"].(string)
	event, _ := m.Values["event"].(string)
	entered, err := b.rdb.HExists(ctx, "order:"+order, m.ID).Result()
	if err != nil || entered {
		return err
	}
	log.Printf("order %s: %s", order, event)
	return b.rdb.HSet(ctx, "order:"+order, m.ID, event).Err()
}
