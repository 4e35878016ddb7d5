package postgreslocker_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// granted is a Waker that passes on which claims own their keys.
type granted struct {
	silent

	owners chan string
}

func (w granted) Granted(_, owner string, _ locker.Offer) { w.owners <- owner }

func TestAFirstWaiterThatIsGoneIsPassedOver(t *testing.T) {
	for name, limit := range map[string]int{"alone": 1, "shared": locker.NoLimit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passesOver(t, limit)
		})
	}
}

// passesOver has two claims wait for a key. The process of the first, which has
// this limit, goes.
func passesOver(t *testing.T, limit int) {
	t.Helper()
	var faults way
	pipe, dsn := piped(t, &faults)
	a, c := pair(t)
	b := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable(tableOf(a)))
	w := granted{owners: make(chan string, 10)}
	open(t, a, silent{})
	open(t, b, silent{})
	open(t, c, w)
	for _, l := range []*postgreslocker.Locker{b, c} { // whoever owns a key listens
		acquire(t, l, claim("another of "+strconv.FormatBool(l == b)), locker.Try{})
		testguard.Eventually(t, "it hears", l.Hears)
	}
	channel := channelOf(t, b, "another of true")
	owner, first, second := claim("k"), claim("k"), claim("k")
	first.Limit = limit
	acquire(t, a, owner, locker.Try{})
	acquire(t, b, first, locker.Try{Wait: true})
	acquire(t, c, second, locker.Try{Wait: true})
	faults.gone.Store(true)
	pipe.Cut(nil)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	testguard.Eventually(t, "its session ends", func() bool { return endedSession(t, conn, channel) })
	for handed := false; !handed; owner = claim("k") { // a claim that was not seen for 2 s is not granted
		acquire(t, a, owner, locker.Try{})
		acquire(t, c, second, locker.Try{Wait: true})
		r, err := a.Release(t.Context(), owner, locker.End{})
		if handed = r.Handed; err != nil {
			t.Fatal(err)
		}
	}
	select {
	case got := <-w.owners:
		if got != second.Owner {
			t.Errorf("%q was granted, want %q", got, second.Owner)
		}
	case <-time.After(testguard.Patience):
		t.Error("nobody is granted the key")
	}
}

// channelOf returns what l listens to, while it owns key.
func channelOf(t *testing.T, l *postgreslocker.Locker, key string) string {
	t.Helper()
	s, err := l.Inspect(t.Context(), key)
	if err != nil || !s.Held {
		t.Fatalf("%+v, %v, want it held", s, err)
	}
	return "guard:" + s.Holder.Instance
}

// endedSession reports whether nobody listens to channel any more.
func endedSession(t *testing.T, conn *pgx.Conn, channel string) (ended bool) {
	t.Helper()
	err := conn.QueryRow(t.Context(), "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 7310863))",
		channel).Scan(&ended)
	return err == nil && ended
}
