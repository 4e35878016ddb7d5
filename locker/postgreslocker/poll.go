package postgreslocker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

const (
	pollEvery  = 20 * time.Millisecond
	pollShare  = 4 // the pause is that many times as long as the look before
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // since a key was used
)

// ring wakes poll.
func (l *Locker) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// poll looks for what no message would tell of, while there is such a thing.
func (l *Locker) poll() {
	for {
		select {
		case <-l.bell:
		case <-l.ctx.Done():
			return
		}
		var took time.Duration
		for {
			if !l.pause(max(pollEvery, pollShare*took)/2+rand.N(pollEvery), nil) {
				return
			}
			keys, owners := l.watched()
			if len(keys) == 0 {
				break
			}
			began := time.Now()
			l.look(keys, owners)
			took = time.Since(began)
		}
	}
}

// watched returns the claims that wait here, unless messages come, and those
// that own their keys without being told who waits.
func (l *Locker) watched() (keys [][]byte, owners []string) {
	hears := l.hears.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, c := range l.queued {
		if !hears {
			keys, owners = append(keys, []byte(c.Key)), append(owners, owner)
		}
	}
	for owner, o := range l.owned {
		if !hears || !o.told {
			keys, owners = append(keys, []byte(o.key)), append(owners, owner)
		}
	}
	return keys, owners
}

// seen is a key that this process owns, or that has a record.
type seen struct {
	key     []byte
	owner   string
	channel string
	token   int64
	waiting int32 // -1: there is a record
}

// look tells the guard which claims own their keys now, and for which keys of
// this process others wait.
func (l *Locker) look(keys [][]byte, owners []string) {
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	var all []seen
	err := l.aside(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, l.sql.poll, keys, owners)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (s seen, err error) {
			return s, r.Scan(&s.key, &s.owner, &s.channel, &s.token, &s.waiting)
		})
		return err
	})
	if err != nil {
		return
	}
	for _, s := range all {
		l.mu.Lock()
		c := l.queued[s.owner]
		l.mu.Unlock()
		if s.waiting < 0 {
			if c != nil && c.Recall {
				l.kept(c.Key, c.Owner)
			}
		} else if c != nil { // how long the offer is, this does not tell
			l.granted(string(s.key), s.owner, s.channel,
				locker.Offer{Token: tokenOf(c, s.token), Waiting: int(s.waiting)})
		} else if s.waiting > 0 {
			l.wanted(string(s.key), s.owner)
		}
	}
}

// wanted tells the guard once that others wait for the key of owner.
func (l *Locker) wanted(key, owner string) {
	l.mu.Lock()
	_, first := l.owned[owner]
	delete(l.owned, owner)
	l.mu.Unlock()
	if first {
		l.waker.Wanted(key)
	}
}

// sweep deletes rows that nobody has used for long, and records that have ended.
func (l *Locker) sweep() {
	for l.pause(sweepEvery+rand.N(sweepEvery), l.closing) {
		l.sweepTable(l.sql.sweep, sweepAfter.Microseconds())
		l.sweepTable(l.sql.sweepRecords)
	}
}

// sweepTable deletes rows, a thousand at a time.
func (l *Locker) sweepTable(sql string, args ...any) {
	for deleted := int64(1000); deleted == 1000; {
		ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
		err := l.aside(ctx, func(conn *pgxpool.Conn) error {
			tag, err := conn.Exec(ctx, sql, args...)
			deleted = tag.RowsAffected()
			return err
		})
		cancel()
		if err != nil {
			return
		}
	}
}
