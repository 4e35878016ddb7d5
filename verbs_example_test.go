package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Call returns what the function returns.
func ExampleCall() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	stock := map[string]int{"4711": 3}
	left, err := guard.Call(ctx, g, guard.Key("stock", "4711"), func(context.Context) (int, error) {
		stock["4711"]--
		return stock["4711"], nil
	})
	fmt.Println(left, err)
	// Output:
	// 2 <nil>
}

// Wrap guards a function once, where it is set up. Its callers do not change.
func ExampleWrap() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	type order struct {
		id  int
		sum float64
	}
	pay := func(_ context.Context, o order) (receipt string, err error) {
		return fmt.Sprintf("order %d: %.2f paid", o.id, o.sum), nil
	}
	pay = guard.Wrap(g, func(o order) string { return guard.Key("order", o.id) }, pay)

	fmt.Println(pay(ctx, order{7, 12.5}))
	// Output:
	// order 7: 12.50 paid <nil>
}

// A transfer needs both accounts. DoAll acquires them in one order for all
// callers, so two transfers in opposite directions cannot deadlock.
func ExampleGuard_DoAll() {
	g, err := guard.New(memlocker.New(), guard.WithFencing())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	from, to := guard.Key("account", "b"), guard.Key("account", "a")
	err = g.DoAll(ctx, []string{from, to}, func(ctx context.Context) error {
		for _, key := range []string{from, to} {
			lease, ok := guard.LeaseOf(ctx, key)
			if !ok {
				return fmt.Errorf("%s is not held", key)
			}
			token, err := lease.FencingToken(ctx)
			if err != nil {
				return err
			}
			fmt.Println(lease.Key(), token > 0) // each account has tokens of its own
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// account:b true
	// account:a true
	// <nil>
}

// Acquire is for a critical section that begins in one function and ends in
// another. The work runs under the context of the lease.
func ExampleGuard_Acquire() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	export := func(ctx context.Context) (err error) {
		lease, err := g.Acquire(ctx, guard.Key("export"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lease.Release(ctx)) }() // even if ctx has ended

		ctx = lease.Context() // ends before the key can expire
		fmt.Println("exported", ctx.Err())
		return nil
	}
	fmt.Println(export(context.Background()))
	// Output:
	// exported <nil>
	// <nil>
}

// A HeldError says when it is worth trying again.
func ExampleHeldError() {
	store := memlocker.New()
	g, err := guard.New(store, guard.WithMaxWait(0))
	if err != nil {
		panic(err)
	}
	other, err := guard.New(store.Peer(), guard.WithName("nightly")) // stands for another process
	if err != nil {
		panic(err)
	}
	ctx, key := context.Background(), guard.Key("report")
	defer g.Close(ctx)
	defer other.Close(ctx)

	lease, err := other.Acquire(ctx, key)
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release(ctx) }()

	err = g.Do(ctx, key, func(context.Context) error { return nil })
	var held *guard.HeldError
	if errors.As(err, &held) {
		fmt.Println(held)                                // fit for anybody
		fmt.Println(held.Key, held.Holder.Name)          // for the log
		fmt.Println(held.RetryAfter() <= 10*time.Second) // the holder's lease, unless it is renewed
	}
	// Output:
	// guard: not acquired: the key is held by another holder
	// report nightly
	// true
}

// Parts that differ give keys that differ, and a missing part gives none.
func ExampleKey() {
	fmt.Println(guard.Key("stock", "4711"))
	fmt.Println(guard.Key("order", 7, true))
	fmt.Println(guard.Key("a:b", "c") == guard.Key("a", "b:c"), guard.Key("a:b", "c"))
	fmt.Printf("%q\n", guard.Key("stock", "")) // every verb refuses it
	// Output:
	// stock:4711
	// order:7:true
	// false a%3Ab:c
	// ""
}

// slowWaits reports waits that were long.
type slowWaits struct {
	guard.NopObserver // for the methods that it does not need
}

func (slowWaits) WaitEnd(_ context.Context, w guard.WaitInfo, r guard.WaitResult) {
	if r.Waited >= 10*time.Millisecond || r.Err != nil {
		fmt.Printf("%s: a long wait for %s, acquired: %v\n", w.Name, guard.KeyHash(w.Key), r.Err == nil)
	}
}

// An observer hears of each wait and each hold. Package tracing has one for
// OpenTelemetry.
func ExampleWithObserver() {
	store := memlocker.New()
	g, err := guard.New(store, guard.WithName("stock"), guard.WithObserver(slowWaits{}),
		guard.WithMaxWait(20*time.Millisecond))
	if err != nil {
		panic(err)
	}
	other, err := guard.New(store.Peer())
	if err != nil {
		panic(err)
	}
	ctx, key := context.Background(), guard.Key("stock", 42)
	defer g.Close(ctx)
	defer other.Close(ctx)

	lease, err := other.Acquire(ctx, key)
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release(ctx) }()
	_ = g.Do(ctx, key, func(context.Context) error { return nil })
	// Output:
	// stock: a long wait for a6aac0970079, acquired: false
}

// Every instance starts the job at the same minute, on clocks that differ a
// little. The job runs on one of them.
func ExampleGuard_TryDo() {
	store := memlocker.New() // redislocker.New(rdb) in production
	once := guard.WithMinHold(10 * time.Second)
	for _, instance := range []guard.Locker{store, store.Peer()} {
		g, err := guard.New(instance, once)
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())
		ran, err := g.TryDo(context.Background(), guard.Key("job", "report"), func(context.Context) error {
			fmt.Println("the report is written")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// the report is written
	// true <nil>
	// false <nil>
}

// A leader works until its function returns, it is no longer the leader, or the
// service ends.
func ExampleGuard_Lead() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	ctx, shutdown := context.WithCancel(context.Background())
	err = g.Lead(ctx, guard.Key("outbox"), func(ctx context.Context) error {
		fmt.Println("elected")
		shutdown()
		<-ctx.Done() // also if another may lead soon
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// elected
	// context canceled
}

// A token is fetched by one instance and used by all, until shortly before its
// end.
func ExampleKeepFor() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	type token struct {
		Access string
		Expiry time.Time
	}
	fetched := 0
	fetch := func(ctx context.Context) (token, error) {
		fetched++
		t := token{Access: "secret", Expiry: time.Now().Add(time.Hour)} // as the server says
		return t, guard.KeepFor(ctx, max(0, time.Until(t.Expiry)-time.Minute))
	}
	for range 3 {
		t, err := guard.Once(ctx, g, guard.Key("token", "billing"), time.Minute, fetch)
		fmt.Println(t.Access, fetched, err)
	}
	// Output:
	// secret 1 <nil>
	// secret 1 <nil>
	// secret 1 <nil>
}

// A long export stops after the batch in which another call begins to wait.
func ExampleWanted() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	done := make(chan error, 1)
	err = g.Do(ctx, guard.Key("export"), func(ctx context.Context) error {
		for batch := 1; ; batch++ {
			fmt.Println("batch", batch)
			if batch == 1 { // another call comes
				go func() {
					done <- g.Do(context.Background(), guard.Key("export"), func(context.Context) error { return nil })
				}()
			}
			select {
			case <-guard.Wanted(ctx):
				return nil // in a program with a default that goes on with the next batch
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	fmt.Println(err, <-done)
	// Output:
	// batch 1
	// <nil> <nil>
}

// A new version asks the leader of the old one to finish its batch and step
// down.
func ExampleGuard_AskLeader() {
	store := memlocker.New()
	old, err := guard.New(store)
	if err != nil {
		panic(err)
	}
	next, err := guard.New(store.Peer()) // stands for another process
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer old.Close(ctx)
	defer next.Close(ctx)

	leads := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- old.Lead(ctx, guard.Key("leader"), func(ctx context.Context) error {
			wanted := guard.Wanted(ctx)
			close(leads)
			select {
			case <-wanted:
				fmt.Println("stepping down")
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	<-leads
	for asked := false; !asked; { // it hears a moment after it has called Wanted
		if asked, err = next.AskLeader(ctx, guard.Key("leader")); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-done)
	// Output:
	// stepping down
	// <nil>
}
