package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

// The roles of calls. A writer is the exclusive call that every library has.
const (
	writer = "writer"
	reader = "reader" // has the key together with other readers
	permit = "permit" // is one of 2 or 3 that have the key
	cart   = "cart"   // a writer with up to 3 keys, all or none

	partition = "partition" // a writer on its process's part of the keys, which linger
)

var roles = []string{writer, reader, permit, cart, once, payment, partition}

// parseRoles reads a list of roles.
func parseRoles(list string) (chosen []string, err error) {
	chosen = strings.Split(list, ",")
	for _, r := range chosen {
		if !slices.Contains(roles, r) {
			return nil, fmt.Errorf("-roles: there is no %q; there are %s", r, strings.Join(roles, ", "))
		}
	}
	return chosen, nil
}

// cast draws the role of a call. Readers get the even keys and permits the odd
// ones, so that many readers meet. Writers and carts come to all keys.
func (p *plan) cast(rnd *rand.Rand, roles []string, keys int) {
	p.role = writer
	if len(roles) > 0 {
		p.role = roles[rnd.IntN(len(roles))]
	}
	switch p.role {
	case reader:
		p.key &^= 1
	case permit:
		p.key = min(p.key|1, keys-1)
	case cart:
		p.cart = rnd.Perm(keys)[:min(3, keys)]
	}
}

// part draws a key of the part that this process has at the time. Parts move on
// each second. One call of 32 takes any key.
func (w *worker) part(rnd *rand.Rand) int {
	const parts = 4
	if rnd.IntN(32) == 0 {
		return rnd.IntN(w.Keys)
	}
	mine := (w.Proc + int(time.Now().Unix())) % parts
	return min(rnd.IntN(w.Keys)/parts*parts+mine, w.Keys-1)
}

// lingers is how long a key of a partition lingers, which the shortest TTL
// allows.
const lingers = 100 * time.Millisecond

// limit returns how many may have the key of p at once. Every second process
// lets in fewer permits, as in a deployment that changes their number. It is 0
// for a call that must be alone.
func (p plan) limit(proc int) int {
	switch p.role {
	case reader:
		return locker.NoLimit
	case permit:
		return 3 - proc%2
	}
	return 0
}

var errAlone = errors.New("this library has exclusive leases of one key only")

// acquire acquires the key of p.
func (w *worker) acquire(ctx context.Context, p plan) (libs.Lease, error) {
	if p.role == writer || p.role == partition {
		return w.locker.Acquire(ctx, keyName(p.key), p.wait)
	}
	l, ok := w.locker.(libs.Moded)
	if !ok {
		return nil, errAlone
	}
	return l.AcquireLimited(ctx, keyName(p.key), p.wait, p.limit(w.Proc))
}

// fill makes the call of a cart. It has one record for each key. Its sections
// run side by side.
func (w *worker) fill(ctx context.Context, p plan, rest time.Duration) error {
	l, ok := w.locker.(libs.Moded)
	if !ok {
		return errAlone
	}
	var got []record
	var names []string
	behind := time.Duration(len(p.cart)-1) * tryLimit(w.TTL) // a key behind one that was held has an attempt, too
	bound := p.bound(w.TTL) + behind
	for _, key := range p.cart {
		got = append(got, record{
			N: w.visits.Add(1), Key: key, Bound: int64(bound), Cart: true, Asked: now(),
		})
		names = append(names, keyName(key))
	}
	var failed error
	ran := false
	err := l.AcquireAll(ctx, names, p.wait, func(leases []libs.Lease) {
		ran = true
		at := now()
		var sections sync.WaitGroup
		errs := make([]error, len(got))
		for i := range got {
			got[i].At = at
			sections.Go(func() {
				own := p
				own.key = got[i].Key
				errs[i] = w.section(own, got[i], leases[i])
			})
		}
		sections.Wait()
		failed = errors.Join(errs...)
	})
	if ran {
		return failed
	}
	at := now()
	time.Sleep(rest)
	for _, r := range got {
		r.At = at
		if e := w.refused(r, err); e != nil {
			return e
		}
	}
	return nil
}

// refused records a call that did not get its key.
func (w *worker) refused(r record, err error) error {
	r.Kind, r.Err, r.Closing = kindNot, err.Error(), w.closing.Load()
	return w.diary.write(r)
}

// AtMost implements [judge.Guest].
func (v *visit) AtMost() int { return v.limit }

// alone reports whether nobody may have the key beside v.
func (v *visit) alone() bool { return v.limit <= 1 }

// countedAs names the role of v for the table.
func (v *visit) countedAs() string {
	if v.cart {
		return cart
	}
	return v.role()
}

// role names the role of v for its key, where a cart is a writer.
func (v *visit) role() string {
	switch v.limit {
	case 0, 1:
		return writer
	case locker.NoLimit:
		return reader
	}
	return permit
}

// crowds checks C3. At each instant fewer have a key than the limit of each of
// them allows. A visit counts from when it got the key until it was last seen
// to have it. So one that hands its permit on and the next are never both in.
func (v *verdict) crowds(h *history, visits []*visit) {
	var floor judge.Floor[*visit] // who has the key when x gets it
	for _, x := range visits {
		if h.forgets(x, x.got, x.promised()+1) {
			continue
		}
		floor.Leave(func(o *visit) bool { return o.promised() <= x.got })
		n, most := floor.Enter(x)
		if n > most {
			first := floor.In[0]
			v.violate(exclusion, "%d at once, where %d may be:\n    %v\n    got it while %v%v", n, most, x, first,
				h.around(first.got, x.got))
		}
		v.atOnce[x.role()] = max(v.atOnce[x.role()], n)
	}
}

// permitTokens is the part of C2 for permits. Those that run at the same time
// may begin in another order than that of their tokens. But each has a higher
// token than every turn that was alone and began before it was asked for.
func (v *verdict) permitTokens(h *history, visits []*visit) {
	type turn struct {
		*visit
		highest uint64 // of all turns up to this one
	}
	var lone []turn
	highest := uint64(0)
	for _, x := range visits { // in the order of got
		if x.alone() && x.token != 0 && !h.forgets(x, x.asked, x.got) {
			highest = max(highest, x.token)
			lone = append(lone, turn{x, highest})
		}
	}
	for _, x := range visits {
		if x.role() != permit || x.token == 0 || h.forgets(x, x.asked, x.got) {
			continue
		}
		before, _ := slices.BinarySearchFunc(lone, x.asked,
			func(t turn, at int64) int { return cmp.Compare(t.got, at) })
		if before > 0 && x.token <= lone[before-1].highest {
			v.violate(tokenOrder, "a permit has a lower token than %d, which was given before: %v",
				lone[before-1].highest, x)
		}
	}
}

// filled returns the times in which carts waited for key. They may have had it
// while they waited for another.
func filled(waits []*visit) (spans []span) {
	for _, x := range waits {
		if x.cart {
			spans = append(spans, span{x.asked, x.got + int64(releaseLimit(ttl(x.proc)))})
		}
	}
	return apart(spans)
}
