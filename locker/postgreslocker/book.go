package postgreslocker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// remember keeps c among the claims that wait here.
func (l *Locker) remember(c *locker.Claim) {
	l.mu.Lock()
	l.queued[c.Owner] = c
	l.mu.Unlock()
	l.begin()
}

// owned is a key that a claim of this process owns.
type owned struct {
	key string
	// told says that the row names a channel that was heard when a request last
	// wrote it, and ever since. A message then tells of claims that wait.
	told bool
}

// owns keeps an owner. channel is the one in its row.
func (l *Locker) owns(key, owner, channel string) {
	l.mu.Lock()
	told := l.tells(channel)
	delete(l.queued, owner)
	l.owned[owner] = owned{key, told}
	l.mu.Unlock()
	l.begin()
	if !told {
		l.ring()
	}
}

// renewed notes that a request has put channel into the rows of owners.
func (l *Locker) renewed(owners map[string]bool, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner := range owners {
		if o, ok := l.owned[owner]; ok {
			o.told = l.tells(channel)
			l.owned[owner] = o
		}
	}
}

// tells reports whether a message to the channel of a row is heard. The caller
// has l.mu, so that untold comes later if hears changes.
func (l *Locker) tells(channel string) bool { return channel == l.channel() && l.hears.Load() }

// untold notes that messages about the owners here may get lost.
func (l *Locker) untold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, o := range l.owned {
		o.told = false
		l.owned[owner] = o
	}
}

func (l *Locker) forget(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.queued, owner)
	delete(l.owned, owner)
}

// granted tells the guard, and gives back a key that nobody here wants (law 3).
func (l *Locker) granted(key, owner, channel string, o locker.Offer) {
	l.owns(key, owner, channel)
	if !l.waker.Granted(key, owner, o) {
		l.abandon(ending{key: key, owner: owner}, false)
	}
}

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
