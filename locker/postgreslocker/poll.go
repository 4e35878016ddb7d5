package postgreslocker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
)

const (
	pollEvery  = 20 * time.Millisecond
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // since a key was used
)

// ring wakes poll, if no messages come.
func (l *Locker) ring() {
	if l.hears.Load() {
		return
	}
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// poll looks for all that this process waits for or owns, while no messages
// come.
func (l *Locker) poll() {
	for {
		select {
		case <-l.bell:
		case <-l.ctx.Done():
			return
		}
		for !l.hears.Load() {
			if !l.pause(pollEvery/2+rand.N(pollEvery), nil) {
				return
			}
			keys, owners := l.watched()
			if len(keys) == 0 {
				break
			}
			l.look(keys, owners)
		}
	}
}

func (l *Locker) watched() (keys [][]byte, owners []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, c := range l.queued {
		keys, owners = append(keys, []byte(c.Key)), append(owners, owner)
	}
	for owner, key := range l.owned {
		keys, owners = append(keys, []byte(key)), append(owners, owner)
	}
	return keys, owners
}

// seen is a key that this process owns.
type seen struct {
	key     []byte
	owner   string
	token   int64
	waiting int32
}

// look tells the guard which claims own their keys now, and for which keys of
// this process others wait.
func (l *Locker) look(keys [][]byte, owners []string) {
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	rows, err := l.pool.Query(ctx, l.sql.poll, keys, owners)
	if err != nil {
		return
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s seen, err error) {
		return s, r.Scan(&s.key, &s.owner, &s.token, &s.waiting)
	})
	if err != nil {
		return
	}
	for _, s := range all {
		l.mu.Lock()
		c := l.queued[s.owner]
		_, owned := l.owned[s.owner]
		if owned && s.waiting > 0 {
			delete(l.owned, s.owner) // told once
		}
		l.mu.Unlock()
		switch {
		case c != nil: // how long the offer is, this does not tell
			l.granted(string(s.key), s.owner, locker.Offer{Token: tokenOf(c, s.token), Waiting: int(s.waiting)})
		case owned && s.waiting > 0:
			l.waker.Wanted(string(s.key))
		}
	}
}

// sweep deletes rows that nobody has used for long, a thousand at a time.
func (l *Locker) sweep() {
	for l.pause(sweepEvery+rand.N(sweepEvery), l.closing) {
		for deleted := int64(1000); deleted == 1000; {
			ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
			tag, err := l.pool.Exec(ctx, l.sql.sweep, sweepAfter.Microseconds())
			cancel()
			if err != nil {
				break
			}
			deleted = tag.RowsAffected()
		}
	}
}
