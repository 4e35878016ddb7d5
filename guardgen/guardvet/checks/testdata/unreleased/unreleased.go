package unreleased

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-lockguard/guard"
)

func work(context.Context) error { return nil }

func reported(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a") // want `the lease is never released: defer its Release, or use Do`
	if err != nil || lease == nil {
		return err
	}
	return work(lease.Context())
}

func blank(ctx context.Context, g *guard.Guard) error {
	_, err := g.TryAcquire(ctx, "a") // want `the lease is never released`
	return err
}

func kept(ctx context.Context, g *guard.Guard) {
	var lease *guard.Lease
	lease, _ = g.Acquire(ctx, "a") // want `the lease is never released`
	_ = lease
}

func printed(ctx context.Context, g *guard.Guard) {
	lease, err := g.Acquire(ctx, "a") // want `the lease is never released`
	fmt.Println(lease, err)
	slog.Info("acquired", "lease", lease, "key", lease.Key())
}

func handedToAFunction(ctx context.Context, g *guard.Guard, keep func(*guard.Lease)) {
	lease, err := g.Acquire(ctx, "a")
	fmt.Println(err)
	keep(lease)
}

func inside(g *guard.Guard) func(context.Context) error {
	return func(ctx context.Context) error {
		lease, err := g.Acquire(ctx, "a") // want `the lease is never released`
		if err != nil {
			return err
		}
		return work(lease.Context())
	}
}

func deferred(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func byClosure(ctx context.Context, g *guard.Guard) (func(), error) {
	lease, err := g.Acquire(ctx, "a")
	return func() { _ = lease.Release(ctx) }, err
}

func byValue(ctx context.Context, g *guard.Guard) (func(context.Context) error, error) {
	lease, err := g.Acquire(ctx, "a")
	return lease.Release, err
}

func handedOn(ctx context.Context, g *guard.Guard) (*guard.Lease, error) { return g.Acquire(ctx, "a") }

func returned(ctx context.Context, g *guard.Guard) (*guard.Lease, error) {
	lease, err := g.Acquire(ctx, "a")
	return lease, err
}

func named(ctx context.Context, g *guard.Guard) (lease *guard.Lease, err error) {
	lease, err = g.Acquire(ctx, "a")
	return
}

type job struct{ lease *guard.Lease }

func stored(ctx context.Context, g *guard.Guard, j *job) (err error) {
	j.lease, err = g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	other, err := g.Acquire(ctx, "b")
	*j = job{lease: other}
	third, err := g.Acquire(ctx, "c")
	j.lease = third
	return err
}

var global *guard.Lease

func forEver(ctx context.Context, g *guard.Guard) { global, _ = g.Acquire(ctx, "a") }

func early(ctx context.Context, g *guard.Guard, ready bool) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if !ready {
		return nil // want `this return leaves the lease behind: defer its Release, or use Do`
	}
	if err := work(lease.Context()); err != nil {
		return err // want `this return leaves the lease behind`
	}
	return lease.Release(ctx)
}

func inABranch(ctx context.Context, g *guard.Guard, jobs []string) (err error) {
	lease, err := g.TryAcquire(ctx, "a")
	if err != nil {
		return
	}
	for _, job := range jobs {
		switch job {
		case "":
			return // want `this return leaves the lease behind`
		case "last":
			_ = lease.Release(ctx)
			return nil
		}
	}
	if lease.Err() != nil {
		return lease.Err()
	}
	err = work(lease.Context())
	_ = lease.Release(ctx)
	if err != nil {
		return err
	}
	return nil
}

func fineEarly(ctx context.Context, g *guard.Guard, ready bool) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	release := func() { _ = lease.Release(ctx) }
	if !ready {
		release()
		return nil
	}
	defer release()
	return work(lease.Context())
}

func fineBranch(ctx context.Context, g *guard.Guard, ready bool) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	work := func() error { return nil }
	if ready {
		_ = lease.Release(ctx)
	}
	if err := work(); err != nil {
		return err
	}
	_ = lease.Release(ctx)
	return nil
}

func fineLost(ctx context.Context, g *guard.Guard) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := lease.Err(); err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }()
	return nil
}
