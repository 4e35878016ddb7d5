package watermilllock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/go-lockguard/guard"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	g, err := guard.New(memlocker.New(), guard.WithName("orders")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		panic(err)
	}
	order := func(msg *message.Message) string { return guard.Key("order", msg.Metadata.Get("order")) }
	router.AddMiddleware(watermilllock.Key(g, order))

	broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	router.AddNoPublisherHandler("pay", "orders", broker, func(msg *message.Message) error { //nolint:staticcheck // as the oldest version has it
		defer stop()
		fmt.Println("paid", msg.Metadata.Get("order"))
		return msg.Context().Err() // ends with the lease
	})
	msg := message.NewMessage(watermill.NewUUID(), nil)
	msg.Metadata.Set("order", "7")
	if err := broker.Publish("orders", msg); err != nil {
		panic(err)
	}
	fmt.Println(router.Run(ctx))
	// Output:
	// paid 7
	// <nil>
}

// A message is worked on once in ten minutes, whatever its broker does. One
// whose handler fails is tried again.
func ExampleWithDrop() {
	g, err := guard.New(memlocker.New(), guard.WithName("orders")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	done := g.With(guard.WithMinHold(10*time.Minute, guard.OnSuccess))
	once := watermilllock.Key(done, func(msg *message.Message) string { return guard.Key("seen", msg.UUID) },
		watermilllock.WithDrop())

	tries := 0
	handler := once(func(*message.Message) ([]*message.Message, error) {
		if tries++; tries == 1 {
			return nil, errors.New("no money")
		}
		fmt.Println("paid")
		return nil, nil
	})
	for range 3 {
		_, err := handler(message.NewMessage("id", nil))
		fmt.Println(err)
	}
	// Output:
	// no money
	// paid
	// <nil>
	// <nil>
}

// Watermill's own Deduplicator on the guard's store, after the lock.
func ExampleNewExpiringKeyRepository() {
	g, err := guard.New(memlocker.New(), guard.WithName("orders")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	seen := &middleware.Deduplicator{
		KeyFactory: middleware.NewMessageHasherSHA256(1 << 20),
		Repository: watermilllock.NewExpiringKeyRepository(g, 10*time.Minute),
		Timeout:    5 * time.Second,
	}
	handler := seen.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		fmt.Println("paid", string(msg.Payload))
		return nil, nil
	})
	for _, order := range []string{"7", "8", "7"} {
		if _, err := handler(message.NewMessage(watermill.NewUUID(), []byte(order))); err != nil {
			panic(err)
		}
	}
	// Output:
	// paid 7
	// paid 8
}
