package rowlocker

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const listPage = 200

// Inspect returns the owner of key and the claims that wait for it, by one
// read.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	if err := l.life.Enter(); err != nil {
		return locker.KeyState{}, err
	}
	defer l.life.Leave()
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := l.rows.Load(ctx, []string{key})
	if err != nil {
		return locker.KeyState{}, err
	}
	return stateOf(key, l.desk.decode(&rows[0])), nil
}

// stateOf describes a row.
func stateOf(key string, r *row) locker.KeyState {
	s := locker.KeyState{Key: key, Record: r.recordState()}
	if !r.free() {
		r.describe(&s)
	}
	for _, w := range r.queue {
		if !r.alive(w) {
			continue
		}
		s.Waiting++
		if len(s.Waiters) < locker.MaxListed {
			s.Waiters = append(s.Waiters, locker.Waiter{Owner: w.Owner, Holder: lockerkit.HolderOf(w.Holder)})
		}
	}
	return s
}

// List returns the state of each key that is owned or waited for, in the order
// of their names. Each read is for 200 rows.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.life.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.life.Leave()
		l.list(ctx, yield)
	}
}

func (l *Locker) list(ctx context.Context, yield func(locker.KeyState, error) bool) {
	for after := ""; ; {
		rows, err := l.page(ctx, after)
		if err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		for i := range rows {
			after = rows[i].Key
			if strings.HasSuffix(after, recordSuffix) {
				continue
			}
			if s := stateOf(after, l.desk.decode(&rows[i])); (s.Held || s.Waiting > 0) && !yield(s, nil) {
				return
			}
		}
		if len(rows) < listPage {
			return
		}
	}
}

func (l *Locker) page(ctx context.Context, after string) ([]Row, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.rows.Scan(ctx, after, listPage)
}

var ownerID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ForceRelease ends the hold of owner on key and hands the key over. The owner
// learns of it by its next renewal.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen || !ownerID.MatchString(owner) {
		return lockerkit.Invalid(l.traits.Name, "%q is no owner id", owner)
	}
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	_, err := l.asOwner(ctx, request{verb: revoke, key: key, owner: owner})
	return err
}

// FindingRoundTrip is the name of the finding that a write takes too long for
// the TTL.
const FindingRoundTrip = "round-trip"

// Check takes and releases a key that nobody uses, measures that, and looks at
// the settings of the database. Check deletes its row.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	l.listen() // a later Check tells whether that goes well
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := "%check " + lockerkit.NewID() // no caller's key has a '%' before a 'c' and an 'h'
	most := lockerkit.MaxPace(ttl)
	took, failed := lockerkit.Pace(min(lockerkit.Near, most), func() (time.Duration, error) {
		return l.probe(ctx, key, ttl)
	})
	if failed == nil && l.traits.Clock {
		c := &Change{Rows: []Row{{Key: key, Version: Any}}}
		failed = errors.Join(l.rows.Swap(ctx, []*Change{c}), c.Err)
	}
	found := []error{l.rows.Check(ctx, ttl, took, failed)}
	if failed == nil && took > most {
		found = append(found, lockerkit.Finding(l.traits.Name, FindingRoundTrip, locker.Refuse,
			"an acquire took %v, too long for a TTL of %v: choose a longer TTL, faster disks or a nearer server",
			took.Round(time.Millisecond), ttl))
	}
	return errors.Join(found...)
}

// probe takes and releases a key as a holder would, and returns how long the
// acquire took.
func (l *Locker) probe(ctx context.Context, key string, ttl time.Duration) (took time.Duration, err error) {
	owner, sent := lockerkit.NewID(), time.Now()
	r := l.desk.do(ctx, request{
		verb: acquire, key: key, owner: owner, ttl: ttl.Microseconds(),
		holder: []byte("{}"),
	})
	took = time.Since(sent)
	if r.err == nil {
		r = l.desk.do(ctx, request{verb: release, key: key, owner: owner})
	}
	return took, r.err
}
