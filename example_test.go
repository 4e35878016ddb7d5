package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func Example() {
	g, err := guard.New(memlocker.New(), guard.WithName("stock")) // redislocker.New(rdb) in production
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = g.Close(context.Background()) }()

	deduct := func(ctx context.Context, sku string) error {
		err := g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
			return sell(ctx, sku) // ctx ends before the key can expire
		})
		return err
	}
	fmt.Println(deduct(context.Background(), "4711"))
	// Output:
	// sold one 4711
	// <nil>
}

func ExampleGuard_With() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = g.Close(ctx) }()

	once := g.With(guard.WithMaxWait(0), guard.WithName("refund")) // at start-up, once
	err = g.Do(ctx, guard.Key("order", 7), func(context.Context) error {
		err := once.Do(ctx, guard.Key("order", 7), func(context.Context) error { return nil })
		fmt.Println("a second click:", errors.Is(err, guard.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// a second click: true
	// <nil>
}

func ExampleFencingToken() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		log.Fatal(err)
	}
	ctx, sku := context.Background(), "4711"
	defer func() { _ = g.Close(ctx) }()

	fenced := g.With(guard.WithFencing()) // at start-up, once
	for range 2 {
		err := fenced.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
			token, err := guard.FencingToken(ctx)
			if err != nil {
				return err
			}
			return write(ctx, sku, token) // refuses a token lower than the last one it has seen
		})
		fmt.Println(err)
	}
	fmt.Println(write(ctx, sku, 1))
	// Output:
	// <nil>
	// <nil>
	// a late write
}

func sell(_ context.Context, sku string) error {
	fmt.Println("sold one", sku)
	return nil
}

// newest is the resource's own record of the highest token. It is kept in the
// same transaction as the guarded data.
var newest uint64

func write(_ context.Context, _ string, token uint64) error {
	if token < newest {
		return errors.New("a late write")
	}
	newest = token
	return nil
}

// Call Check at start-up. A finding does not pass by itself, so somebody must
// change what it names.
func ExampleGuard_Check() {
	// a managed Redis, whose policy nobody can change
	accepted := guard.WithAcceptedFindings(redislocker.FindingEviction)
	g, err := guard.New(memlocker.New(), accepted) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	var found *guard.Finding
	switch err := g.Check(context.Background()); {
	case err == nil:
		fmt.Println("ready")
	case errors.Is(err, guard.ErrUnavailable):
		fmt.Println("not now:", err)
	case errors.As(err, &found):
		fmt.Println("to be changed, or accepted as", found.Name, err)
	}
	// Output: ready
}
