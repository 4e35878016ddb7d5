package postgreslocker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	workers    = 2 // goroutines that send calls, each with one request at a time
	batchMax   = 128
	sizeMax    = 4 << 20 // bytes of records in a batch, give or take one record
	backlogMax = 1024    // calls that wait for a worker before others block
)

type (
	calls  = lockerkit.Calls[request, result]
	call   = lockerkit.Call[request, result]
	groups = lockerkit.Calls[group, taken]
)

// request is one verb about one key, and travels with others in one query.
type request struct {
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
	waiting         int32
	handed          bool
	heir            heir
	channels, texts []string // messages about a key with several owners, or about a record
	recorded        bool     // or marked, or forgotten, see record.sql
	record          []byte
	err             error
}

// heir is the claim to which a release has handed the key.
type heir struct {
	owner   string
	offer   int64
	behind  int32
	channel string // of its process, unless that is this one
}

// message is what a process is told.
type message struct{ channel, text string }

// group is an AcquireAll, which is one query.
type group struct {
	cs      []*locker.Claim
	holders []string
	channel string
	prefix  bool
}

// taken is what the function that all.sql defines returns.
type taken struct {
	held   int32
	holder string
	remain int64
	tokens []int64 // of the claims that own their keys now
	err    error
}

// batcher brings calls to the server, many at a time, and is safe for
// concurrent use.
type batcher struct {
	server *server
	inbox  *inbox // gets the messages for this process
	calls  calls
	groups groups
}

func newBatcher(s *server, in *inbox) *batcher {
	return &batcher{server: s, inbox: in, calls: make(calls, backlogMax), groups: make(groups)}
}

// do blocks until q has an answer or ctx ends.
func (b *batcher) do(ctx context.Context, q request) (result, error) {
	k, _ := b.calls.Post(ctx, q)
	return b.answer(k)
}

// answer blocks until a call that was posted has an answer or its ctx ends. nil
// is a call that was not sent.
func (b *batcher) answer(k *call) (result, error) {
	if k == nil {
		return result{}, errUnsent
	}
	r, unsent, err := k.Wait()
	return r, inTime(unsent, err, r.err)
}

// doGroup is do for a group.
func (b *batcher) doGroup(ctx context.Context, g group) (taken, error) {
	t, unsent, err := b.groups.Do(ctx, g)
	return t, inTime(unsent, err, t.err)
}

// inTime returns the error of a call: that of its answer, unless its caller has
// given up.
func inTime(unsent bool, gaveUp, answer error) error {
	switch {
	case unsent:
		return errUnsent
	case gaveUp != nil:
		return errTooLate
	}
	return answer
}

// work sends the calls that have come, in one query, until ctx ends.
func (b *batcher) work(ctx context.Context) {
	for {
		select {
		case k := <-b.calls:
			if batch := b.gather(k); len(batch) > 0 {
				b.send(ctx, batch)
			}
		case g := <-b.groups:
			if g.Take() {
				b.sendGroup(ctx, g)
			}
		case <-ctx.Done():
			return
		}
	}
}

// gather returns k and the other calls that have come, sorted by key, so that
// two batches lock rows in one order.
func (b *batcher) gather(k *call) []*call {
	batch := b.calls.Gather(k, batchMax, sizeMax, func(q *request) int { return len(q.value) })
	slices.SortStableFunc(batch, func(k, other *call) int { return strings.Compare(k.Request.key, other.Request.key) })
	return batch
}

// send answers the calls of a batch. If the server refuses all of them because
// of one, each is sent by itself: nothing was done.
func (b *batcher) send(ctx context.Context, batch []*call) {
	limited, cancel := context.WithDeadline(ctx, lockerkit.Patience(batch, tripMax))
	defer cancel()
	var rs []result
	err := retry(limited, func() (err error) {
		rs, err = b.query(limited, batch)
		return err
	})
	if err != nil && len(batch) > 1 && limited.Err() == nil && refused(err) {
		for i := range batch {
			b.send(ctx, batch[i:i+1])
		}
		return
	}
	var channels, texts []string
	var own []message // for this process
	for i, k := range batch {
		if err != nil {
			k.Answer(result{err: translate(err)})
			continue
		}
		r := &rs[i]
		if to := &r.heir; to.channel != "" {
			channels = append(channels, to.channel)
			texts = append(texts,
				fmt.Sprintf("g %x %s %d %d %d", k.Request.key, to.owner, r.token, to.behind, to.offer))
			to.owner = ""
		}
		for n, channel := range r.channels {
			switch name, silent := strings.CutPrefix(channel, "-"); {
			case name == b.inbox.book.channel:
				own = append(own, message{channel, r.texts[n]})
			case !silent:
				channels, texts = append(channels, channel), append(texts, r.texts[n])
			}
		}
		k.Answer(*r)
	}
	for _, m := range own {
		b.inbox.heard(m.text, m.channel)
	}
	if len(channels) > 0 { // a message that gets lost is found by its owner's next look
		_ = b.server.on(limited, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(limited, tell, channels, texts)
			return err
		})
	}
}

// tell does not wait for the disk, because transactions that notify wait for
// one another.
const tell = `SELECT pg_notify(m.c, m.t), set_config('synchronous_commit', 'off', true)
FROM unnest($1::text[], $2::text[]) AS m(c, t)`

func (b *batcher) query(ctx context.Context, batch []*call) ([]result, error) {
	n := len(batch)
	ops, keys, owners, nexts := make([]string, n), make([][]byte, n), make([]string, n), make([]string, n)
	ttls, shorts, longs := make([]int64, n), make([]int64, n), make([]int64, n)
	fences, holders, channels := make([]bool, n), make([]string, n), make([]string, n)
	places, flags, limits, values := make([]int64, n), make([]int32, n), make([]int64, n), make([][]byte, n)
	for i, c := range batch {
		k := &c.Request
		ops[i], keys[i], owners[i], nexts[i] = k.op, []byte(k.key), k.owner, k.next
		ttls[i], shorts[i], longs[i] = k.ttl, k.short, k.long
		fences[i], holders[i], channels[i], places[i], flags[i] = k.fence, k.holder, k.channel, k.place, k.flags
		limits[i], values[i] = k.limit, k.value
	}
	rs := make([]result, 0, n)
	err := b.server.on(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, b.server.sql.call, ops, keys, owners, nexts, ttls, shorts, longs, fences, holders,
			channels, places, flags, limits, values)
		if err != nil {
			return err
		}
		var r result
		columns := []any{
			&r.ok, &r.token, &r.holder, &r.remain, &r.queued, &r.place, &r.waiting, &r.heir.behind, &r.handed,
			&r.heir.owner, &r.heir.offer, &r.heir.channel, &r.channels, &r.texts, &r.recorded, &r.record,
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

// sendGroup answers g.
func (b *batcher) sendGroup(ctx context.Context, g *lockerkit.Call[group, taken]) {
	ctx, cancel := context.WithDeadline(ctx, lockerkit.Patience([]*lockerkit.Call[group, taken]{g}, tripMax))
	defer cancel()
	q, n := &g.Request, len(g.Request.cs)
	keys, owners := make([][]byte, n), make([]string, n)
	for i, c := range q.cs {
		keys[i], owners[i] = []byte(c.Key), c.Owner
	}
	var t taken
	err := retry(ctx, func() error {
		t = taken{}
		first := q.cs[0]
		return b.server.on(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, b.server.sql.all, keys, owners, q.holders, first.TTL.Microseconds(),
				first.Fencing, q.channel, q.prefix).Scan(&t.held, &t.holder, &t.remain, &t.tokens)
		})
	})
	t.err = translate(err)
	g.Answer(t)
}
