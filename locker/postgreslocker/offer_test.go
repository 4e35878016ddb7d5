package postgreslocker_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// A hand-over that waits for the disk cannot be seen yet. The guard counts the
// offer from the last look that saw its claim in the queue (law 1).
func TestAnOfferLastsFromTheLastLookBeforeItCouldBeSeen(t *testing.T) {
	for name, gone := range map[string]bool{"alone": false, "behind a shared claim that is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, postgreslocker.WithPollOnly()) // so that no look says that it hears now
			open(t, a, silent{})
			open(t, b, silent{})
			offerLasts(t, a, b, gone)
		})
	}
}

// offerLasts has b look while a key is handed to its claim.
func offerLasts(t *testing.T, a, b *postgreslocker.Locker, gone bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	call, err := postgreslocker.Fill(`SELECT o_queued, o_handed FROM {F}(ARRAY[$1::text], '{k}', ARRAY[$2::text], '{""}',
		'{10000000}', '{1000000}', '{3333000}', '{false}', '{""}', ARRAY[$4::text], '{0}', '{1}',
		ARRAY[$3::bigint], '{NULL}')`, tableOf(a), postgreslocker.Version)
	if err != nil {
		t.Fatal(err)
	}
	owner, c := claim("k"), claim("k")
	acquire(t, a, owner, locker.Try{})
	defer func() {
		for _, over := range []*locker.Claim{c, owner} {
			_, _ = b.Release(context.WithoutCancel(t.Context()), over, nil)
		}
	}()
	var queued, handed bool
	if gone {
		err := conn.QueryRow(t.Context(), call, "a", claim("k").Owner, locker.NoLimit, "guard:gone").
			Scan(&queued, &handed)
		if err != nil || !queued {
			t.Fatal(queued, err)
		}
	}
	acquire(t, b, c, locker.Try{Wait: true})
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	err = tx.QueryRow(t.Context(), call, "r", owner.Owner, 1, "-guard:old").Scan(&queued, &handed)
	if err != nil || !handed {
		t.Fatal(handed, err)
	}
	time.Sleep(250 * time.Millisecond) // the disk is slow
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sent := time.Now()
	x, err := b.Acquire(ctx, c, locker.Try{Wait: true, Queued: true})
	if err != nil || !x.Queued {
		t.Fatalf("%+v, %v, want it queued", x, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := a.Inspect(t.Context(), "k")
	if err != nil || s.Owner != c.Owner {
		t.Fatalf("%+v, %v, want the claim to own the key", s, err)
	}
	if left := time.Until(sent.Add(c.ShortOffer())); s.Remaining < left {
		t.Errorf("the lease lasts for %v, want at least the %v that are left of an offer from that look on",
			s.Remaining, left)
	}
}
