package postgreslocker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

const (
	workers  = 2  // goroutines that send calls, each with one request at a time
	besides  = 2  // other requests at a time
	dying    = 12 // connections that a silent server keeps from being closed, at most
	batchMax = 128
	sizeMax  = 4 << 20         // bytes of records in a batch, give or take one record
	tripMax  = 2 * time.Second // for a request whose calls have no deadline
)

// call is one verb about one key. It travels with others in one request.
type call struct {
	ctx              context.Context
	op               string
	key, owner, next string
	ttl, short, long int64 // microseconds
	fence            bool
	holder           string
	channel          string // of this process, see channelNow
	place            int64
	flags            int32
	limit            int64  // of the claim that may be queued
	value            []byte // of a record, with ttl

	taken atomic.Bool // by the worker that sends it, or by the caller that gives up
	done  chan result // has room for the one result, so that nobody waits for the caller
}

// Flags of an "a", which acquires, and of an "r", which releases.
const (
	flagWait   = 1
	flagHeld   = 2
	flagQueued = 4
	flagRecall = 8

	flagTell   = 1
	flagUnmark = 2
)

// result is a row of the function that schema.sql defines.
type result struct {
	ok              bool
	token           int64
	holder          string
	remain          int64
	queued          bool
	place           int64
	waiting, behind int32
	handed          bool
	owner           string
	offer           int64
	channel         string
	channels, texts []string // messages about a key with several owners, or about a record
	kept            bool     // see record.sql
	record          []byte
	err             error
}

// message is what a process is told.
type message struct{ channel, text string }

// send blocks until k has an answer or its ctx ends.
func (l *Locker) send(k *call) (result, error) {
	if err := l.post(k); err != nil {
		return result{}, err
	}
	return l.answer(k)
}

// post leaves k to the workers.
func (l *Locker) post(k *call) error {
	k.done = make(chan result, 1)
	select {
	case l.calls <- k:
		return nil
	case <-k.ctx.Done():
		return errUnsent
	}
}

// answer blocks until k, which was posted, has an answer or its ctx ends.
func (l *Locker) answer(k *call) (result, error) {
	select {
	case r := <-k.done:
		return r, r.err
	case <-k.ctx.Done():
		if k.taken.CompareAndSwap(false, true) {
			return result{}, errUnsent
		}
		return result{}, errTooLate
	}
}

// work sends the calls that have come, in one request, until the locker ends.
func (l *Locker) work() {
	for {
		select {
		case k := <-l.calls:
			if batch := l.gather(k); len(batch) > 0 {
				l.run(batch)
			}
		case g := <-l.groups:
			l.acquireAll(g)
		case <-l.ctx.Done():
			return
		}
	}
}

// gather returns k and the other calls that have come, without those that were
// given up. They are sorted by key, so that two batches lock rows in one order.
func (l *Locker) gather(k *call) (batch []*call) {
	for size := 0; ; {
		if k.taken.CompareAndSwap(false, true) {
			batch = append(batch, k)
			size += len(k.value)
		}
		if len(batch) == batchMax || size > sizeMax {
			break
		}
		select {
		case k = <-l.calls:
			continue
		default:
		}
		break
	}
	slices.SortStableFunc(batch, func(a, b *call) int { return strings.Compare(a.key, b.key) })
	return batch
}

// run answers the calls of a batch. If the server refuses all of them because
// of one, each is sent by itself: nothing was done.
func (l *Locker) run(batch []*call) {
	var until time.Time // somebody waits for the batch
	for _, k := range batch {
		if end := patience(k.ctx); end.After(until) {
			until = end
		}
	}
	ctx, cancel := context.WithDeadline(l.ctx, until)
	defer cancel()
	var rs []result
	err := l.retry(ctx, func() (err error) {
		rs, err = l.query(ctx, batch)
		return err
	})
	if err != nil && len(batch) > 1 && ctx.Err() == nil && refused(err) {
		for i := range batch {
			l.run(batch[i : i+1])
		}
		return
	}
	var channels, texts []string
	var own []message // for this process
	for i, k := range batch {
		if err != nil {
			k.done <- result{err: translate(err)}
			continue
		}
		if r := &rs[i]; r.channel != "" {
			channels = append(channels, r.channel)
			texts = append(texts, fmt.Sprintf("g %x %s %d %d %d", k.key, r.owner, r.token, r.behind, r.offer))
			r.owner = ""
		}
		for n, channel := range rs[i].channels {
			switch name, silent := strings.CutPrefix(channel, "-"); {
			case name == l.channel():
				own = append(own, message{channel, rs[i].texts[n]})
			case !silent:
				channels, texts = append(channels, channel), append(texts, rs[i].texts[n])
			}
		}
		k.done <- rs[i]
	}
	for _, m := range own {
		l.heard(m.text, m.channel)
	}
	if len(channels) > 0 { // a message that gets lost is found by its owner's next look
		_ = l.on(ctx, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, tell, channels, texts)
			return err
		})
	}
}

// tell does not wait for the disk, because transactions that notify wait for
// one another.
const tell = `SELECT pg_notify(m.c, m.t), set_config('synchronous_commit', 'off', true)
FROM unnest($1::text[], $2::text[]) AS m(c, t)`

func (l *Locker) query(ctx context.Context, batch []*call) ([]result, error) {
	n := len(batch)
	ops, keys, owners, nexts := make([]string, n), make([][]byte, n), make([]string, n), make([]string, n)
	ttls, shorts, longs := make([]int64, n), make([]int64, n), make([]int64, n)
	fences, holders, channels := make([]bool, n), make([]string, n), make([]string, n)
	places, flags, limits, values := make([]int64, n), make([]int32, n), make([]int64, n), make([][]byte, n)
	for i, k := range batch {
		ops[i], keys[i], owners[i], nexts[i] = k.op, []byte(k.key), k.owner, k.next
		ttls[i], shorts[i], longs[i] = k.ttl, k.short, k.long
		fences[i], holders[i], channels[i], places[i], flags[i] = k.fence, k.holder, k.channel, k.place, k.flags
		limits[i], values[i] = k.limit, k.value
	}
	rs := make([]result, 0, n)
	err := l.on(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, l.sql.call, ops, keys, owners, nexts, ttls, shorts, longs, fences, holders,
			channels, places, flags, limits, values)
		if err != nil {
			return err
		}
		var r result
		columns := []any{
			&r.ok, &r.token, &r.holder, &r.remain, &r.queued, &r.place, &r.waiting, &r.behind, &r.handed, &r.owner,
			&r.offer, &r.channel, &r.channels, &r.texts, &r.kept, &r.record,
		}
		_, err = pgx.ForEachRow(rows, columns, func() error {
			rs = append(rs, r)
			r.channels, r.texts, r.record = nil, nil, nil
			return nil
		})
		return err
	})
	if err == nil && len(rs) != n {
		err = fmt.Errorf("%w: %d answers to %d calls", locker.ErrUnavailable, len(rs), n)
	}
	return rs, err
}

// group is an AcquireAll. It is one request.
type group struct {
	ctx     context.Context
	cs      []*locker.Claim
	holders []string
	channel string
	prefix  bool

	taken atomic.Bool // by the worker that sends it, or by the caller that gives up
	done  chan taken  // has room for the one result, so that nobody waits for the caller
}

// taken is what the function that all.sql defines returns.
type taken struct {
	held   int32
	holder string
	remain int64
	tokens []int64 // of the claims that own their keys now
	err    error
}

// sendGroup blocks until g has an answer or its ctx ends.
func (l *Locker) sendGroup(g *group) taken {
	select {
	case l.groups <- g:
	case <-g.ctx.Done():
		return taken{err: errUnsent}
	}
	select {
	case t := <-g.done:
		return t
	case <-g.ctx.Done():
		if g.taken.CompareAndSwap(false, true) {
			return taken{err: errUnsent}
		}
		return taken{err: errTooLate}
	}
}

// acquireAll answers g, unless its caller has given up.
func (l *Locker) acquireAll(g *group) {
	if !g.taken.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithDeadline(l.ctx, patience(g.ctx))
	defer cancel()
	n := len(g.cs)
	keys, owners := make([][]byte, n), make([]string, n)
	for i, c := range g.cs {
		keys[i], owners[i] = []byte(c.Key), c.Owner
	}
	var t taken
	err := l.retry(ctx, func() error {
		t = taken{}
		first := g.cs[0]
		return l.on(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, l.sql.all, keys, owners, g.holders, first.TTL.Microseconds(), first.Fencing,
				g.channel, g.prefix).Scan(&t.held, &t.holder, &t.remain, &t.tokens)
		})
	})
	t.err = translate(err)
	g.done <- t
}
