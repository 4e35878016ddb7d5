package commits

import (
	"context"
	"database/sql"

	"github.com/go-lockguard/guard"
)

func work(context.Context, *sql.Tx) error { return nil }

func deferredBefore(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Commit() // want `tx commits after the lease is released, and the next holder may not see its work: commit before`
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context(), tx)
}

func byClosures(ctx context.Context, g *guard.Guard, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback()
			return
		}
		err = tx.Commit() // want `tx commits after the lease is released`
	}()
	lease, err := g.TryAcquire(ctx, "a")
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }()
	return work(lease.Context(), tx)
}

func releasedByHand(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(lease.Context(), nil)
	if err != nil {
		_ = lease.Release(ctx)
		return err
	}
	defer tx.Commit() // want `tx commits after the lease is released`
	err = work(lease.Context(), tx)
	_ = lease.Release(ctx)
	return err
}

func behindTheRelease(ctx context.Context, g *guard.Guard, tx *sql.Tx) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := work(lease.Context(), tx); err != nil {
		return err // want `this return leaves the lease behind`
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	return tx.Commit() // want `tx commits after the lease is released`
}

func aroundDo(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = g.Do(ctx, "a", func(ctx context.Context) error { return work(ctx, tx) })
	if err != nil {
		return err
	}
	return tx.Commit() // want `tx commits after the lease is released`
}

func fineDeferred(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	tx, err := db.BeginTx(lease.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Commit()
	return work(lease.Context(), tx)
}

func fineInOrder(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(lease.Context(), nil)
	if err != nil {
		_ = lease.Release(ctx)
		return err
	}
	defer tx.Rollback()
	if err := work(lease.Context(), tx); err != nil {
		_ = lease.Release(ctx)
		return err
	}
	err = tx.Commit()
	_ = lease.Release(ctx)
	return err
}

func fineOfAnother(ctx context.Context, g *guard.Guard, audit *sql.Tx, db *sql.DB) error {
	if err := work(ctx, audit); err != nil {
		return err
	}
	defer audit.Commit() // has no part in the lease
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return nil
}

func fineInDo(ctx context.Context, g *guard.Guard, db *sql.DB) error {
	return g.Do(ctx, "a", func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := g.Do(ctx, "a", func(ctx context.Context) error { return work(ctx, tx) }); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func fineCommitInside(ctx context.Context, g *guard.Guard, tx *sql.Tx) error {
	return g.Do(ctx, "a", func(ctx context.Context) error {
		defer tx.Rollback()
		if err := work(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// At start-up, in no function.
var (
	began  = g0.Do(context.Background(), "a", func(ctx context.Context) error { return work(ctx, nil) })
	g0, _  = guard.New(nil)
	g1     = g0.With()
	handed = func() error { return g1.Do(context.Background(), "a", func(context.Context) error { return nil }) }
)
