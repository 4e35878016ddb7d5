package postgreslocker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// renewMax is the number of claims that one request renews.
const renewMax = 1000

// Acquire makes c the owner of its key if nobody owns it. Otherwise it returns
// the owner and, if t.Wait, queues c. It takes one request.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.gate.Leave()
	k := &call{
		ctx: ctx, op: "a", key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds(), short: c.ShortOffer().Microseconds(),
		long: c.LongOffer().Microseconds(), fence: c.Fencing, holder: l.describe(c), channel: l.channelNow(),
		place: int64(t.Place), limit: limitOf(c),
	}
	for flag, set := range map[int32]bool{
		flagWait: t.Wait, flagHeld: t.Held, flagQueued: t.Queued, flagRecall: c.Recall,
	} {
		if set {
			k.flags |= flag
		}
	}
	if t.Wait || t.Queued {
		l.remember(c) // before the message can come
	}
	r, err := l.send(k)
	switch {
	case errors.Is(err, locker.ErrUnsent):
		if !t.Queued {
			l.forget(c.Owner)
		}
		return locker.Answer{Queued: t.Queued}, err
	case err != nil:
		return locker.Answer{Queued: t.Wait || t.Queued}, err
	case r.ok:
		l.owns(c.Key, c.Owner, k.channel)
		return locker.Answer{Acquired: true, Token: tokenOf(c, r.token)}, nil
	case !r.queued:
		l.forget(c.Owner)
	}
	if r.record != nil {
		return locker.Answer{Record: string(r.record)}, nil
	}
	return locker.Answer{
		Holder: holderOf(r.holder), Remaining: microseconds(r.remain), Queued: r.queued, Place: locker.Place(r.place),
	}, nil
}

// Fence reserves a block of fencing tokens for c, if it owns its key, and
// returns the first. It takes one request.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	if err := l.gate.Enter(); err != nil {
		return 0, err
	}
	defer l.gate.Leave()
	r, err := l.send(&call{ctx: ctx, op: "f", key: c.Key, owner: c.Owner, limit: limitOf(c)})
	switch {
	case err != nil:
		return 0, unclear(err)
	case !r.ok:
		return 0, errNotOwner
	}
	return uint64(r.token), nil
}

// Release gives the key of c to the claim that has waited longest, if c owns
// it. It queues next behind the others. It takes one request.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	r, err := l.release(ctx, endOf(c), next)
	return r, unclear(err)
}

// ending is what ends a claim, or the hold of an owner.
type ending struct {
	key, owner string
	keep       *locker.Record // to be kept in the same step
	flags      int32
}

func (l *Locker) release(ctx context.Context, e ending, next *locker.Claim) (locker.Released, error) {
	k := l.releasing(ctx, e, next)
	r, err := l.send(k)
	return l.released(k, r, next, err)
}

// releasing returns the call of a release.
func (l *Locker) releasing(ctx context.Context, e ending, next *locker.Claim) *call {
	if e.flags&flagTell == 0 { // else it may be another's, or wait here
		l.forget(e.owner)
	}
	k := &call{ctx: ctx, op: "r", key: e.key, owner: e.owner, channel: l.channelNow(), flags: e.flags, limit: 1}
	if e.keep != nil {
		k.op, k.ttl, k.value = "k", e.keep.TTL.Microseconds(), []byte(e.keep.Value)
	}
	if next != nil {
		k.next, k.fence, k.holder, k.limit = next.Owner, next.Fencing, l.describe(next), limitOf(next)
		k.short, k.long = next.ShortOffer().Microseconds(), next.LongOffer().Microseconds()
		l.remember(next)
	}
	return k
}

// released reads the answer to a release.
func (l *Locker) released(k *call, r result, next *locker.Claim, err error) (locker.Released, error) {
	if err != nil {
		return locker.Released{Queued: next != nil}, err
	}
	if next != nil && !r.queued {
		l.forget(next.Owner)
	}
	if r.owner != "" { // a claim of this process
		l.granted(k.key, r.owner, "", locker.Offer{
			Length: microseconds(r.offer), Token: uint64(r.token), Waiting: int(r.behind),
		})
	}
	if !r.ok && !r.kept {
		err = errNotOwner
	}
	return locker.Released{
		Waiting: int(r.waiting), Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place),
	}, err
}

// Renew gives each claim its full TTL again, or answers ErrLeaseLost. It takes
// one request for each 1,000 claims, and another one if some claims have a
// limit.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	var alone, shares []int // places in cs
	for i, c := range cs {
		if limitOf(c) == 1 {
			alone = append(alone, i)
		} else {
			shares = append(shares, i)
		}
	}
	slices.SortFunc(shares, func(i, j int) int { return strings.Compare(cs[i].Key, cs[j].Key) })
	var parts sync.WaitGroup
	defer parts.Wait()
	for sql, all := range map[string][]int{l.sql.renew: alone, l.sql.stay: shares} {
		for at := range slices.Chunk(all, renewMax) {
			parts.Go(func() { l.renewPart(ctx, sql, cs, at, answered) })
		}
	}
}

// renewPart renews the claims at some places of cs, in one request.
func (l *Locker) renewPart(ctx context.Context, sql string, cs []*locker.Claim, at []int,
	answered func(i int, err error),
) {
	got, err := l.renewAll(ctx, sql, cs, at)
	for _, i := range at {
		waits, ok := got[cs[i].Owner]
		switch {
		case err != nil:
			answered(i, unclear(translate(err)))
		case !ok:
			answered(i, errNotOwner)
		default:
			answered(i, nil)
			if waits {
				l.wanted(cs[i].Key, cs[i].Owner)
			}
		}
	}
}

// renewAll returns the owner ids that still own their keys, and whether others
// wait for those.
func (l *Locker) renewAll(ctx context.Context, sql string, cs []*locker.Claim, at []int,
) (got map[string]bool, err error) {
	keys, owners, ttls := make([][]byte, len(at)), make([]string, len(at)), make([]int64, len(at))
	for n, i := range at {
		keys[n], owners[n], ttls[n] = []byte(cs[i].Key), cs[i].Owner, cs[i].TTL.Microseconds()
	}
	channel := l.channelNow()
	err = l.retry(ctx, func() error {
		return l.aside(ctx, func(conn *pgxpool.Conn) error {
			got = make(map[string]bool, len(at))
			rows, err := conn.Query(ctx, sql, keys, owners, ttls, channel)
			if err != nil {
				return err
			}
			var owner string
			var waits bool
			_, err = pgx.ForEachRow(rows, []any{&owner, &waits, nil}, func() error {
				got[owner] = waits
				return nil
			})
			return err
		})
	})
	if err == nil {
		l.renewed(got, channel)
	}
	return got, err
}

// describe returns the text of c's Holder.
func (l *Locker) describe(c *locker.Claim) string {
	if c.Holder.Instance == "" {
		c.Holder.Instance = l.instance
	}
	h := c.Holder
	text, err := json.Marshal(h)
	if err != nil { // a year beyond 9999
		h.Since = time.Time{}
		text, _ = json.Marshal(h)
	}
	return string(text)
}

func holderOf(text string) (h locker.Holder) {
	_ = json.Unmarshal([]byte(text), &h) // a stranger's text describes nobody
	return h
}

func tokenOf(c *locker.Claim, token int64) uint64 {
	if !c.Fencing {
		return 0
	}
	return uint64(token)
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
