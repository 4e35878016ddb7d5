package memlocker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func Example() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = g.Close(ctx) }()

	err = g.Do(ctx, guard.Key("stock", "42"), func(context.Context) error {
		fmt.Println("nobody else in this process sells 42 now")
		return nil
	})
	fmt.Println(err)
	// Output:
	// nobody else in this process sells 42 now
	// <nil>
}

// Two guards of one test stand for two processes.
func ExampleLocker_Peer() {
	here := memlocker.New()
	mine, theirs := must(guard.New(here)), must(guard.New(here.Peer()))
	ctx := context.Background()
	defer func() { _ = errors.Join(mine.Close(ctx), theirs.Close(ctx)) }()

	err := mine.Do(ctx, "job", func(ctx context.Context) error {
		_, err := theirs.TryAcquire(context.WithoutCancel(ctx), "job")
		fmt.Println(errors.Is(err, guard.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A test breaks the store to see what the service answers.
func ExampleLocker_Break() {
	store := memlocker.New()
	g := must(guard.New(store, guard.WithMaxWait(50*time.Millisecond)))
	ctx := context.Background()
	defer func() { _ = g.Close(ctx) }()

	mend := store.Break()
	err := g.Do(ctx, "k", func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, guard.ErrUnavailable))
	mend()
	fmt.Println(g.Do(ctx, "k", func(context.Context) error { return nil }))
	// Output:
	// true
	// <nil>
}

func must(g *guard.Guard, err error) *guard.Guard {
	if err != nil {
		log.Fatal(err)
	}
	return g
}
