package rowlocker

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	// pollFloor is the shortest pause between two looks at the claims that wait
	// here.
	pollFloor = 10 * time.Millisecond
	// pollIdle is the pause if claims only own their keys here.
	pollIdle = 40 * time.Millisecond
	// pollShare bounds the share of the time that looks may take. The pause is
	// that many times as long as the look before.
	pollShare = 4
	pollCeil  = 60 * time.Millisecond
	pollLimit = time.Second
	earPause  = 50 * time.Millisecond // before messages are listened for again
	earLimit  = time.Second           // without messages, before the lookout looks
	pollPage  = 500
)

// lookout finds out by itself what a message would tell: which claims were
// granted their keys, and which keys others wait for. The lookout asks nothing
// while no claim waits or owns a key here.
type lookout struct {
	desk  *desk
	book  *book
	life  *lockerkit.Life
	waker locker.Waker              // set by Open
	deaf  atomic.Pointer[time.Time] // since when messages may be missed; nil: they come
}

// listen hears messages until the locker ends.
func (l *lookout) listen(ears Ears) {
	lost := func() (heard bool) {
		now := time.Now()
		return l.deaf.CompareAndSwap(nil, &now)
	}
	for {
		ears.Listen(l.life.Context(), l.desk.instance, l.heard, func() {
			l.deaf.Store(nil)
			l.waker.WakeAll()
			l.lookAll() // what was missed nobody tells again
		})
		if lost() {
			l.book.bell.Ring()
			l.waker.WakeAll()
		}
		if !lockerkit.Pause(earPause, l.life.Context().Done()) {
			return
		}
	}
}

// hears reports whether messages come.
func (l *lookout) hears() bool { return l.deaf.Load() == nil }

// polls reports whether no message has come for so long, if ever, that the
// locker must look for itself.
func (l *lookout) polls() bool {
	since := l.deaf.Load()
	return since != nil && time.Since(*since) > earLimit
}

// heard passes on what a message tells: the row as it is now.
func (l *lookout) heard(src Row) {
	now := time.Now()
	if src.Version == 0 && len(src.Tickets) > 0 {
		if row, ok := l.desk.memory.stands(src.Key, src.Tickets[0], false); ok {
			l.told(src.Key, l.desk.decode(&row), nil, now)
		} else { // the row is forgotten, and the next write will read it
			l.waker.Wanted(src.Key)
		}
		return
	}
	at := src.Version
	if len(src.Value) == 0 {
		ctx, cancel := context.WithTimeout(l.life.Context(), limits.Apart(pollLimit))
		defer cancel()
		rows, err := l.desk.rows.Load(ctx, []string{src.Key})
		if err != nil {
			return
		}
		src = rows[0]
	}
	known, _ := l.desk.memory.known(src.Key)
	l.desk.memory.clock(src.Now)
	if l.desk.traits.Members && src.Tickets == nil && len(src.Value) > 0 && src.Value[0] == '/' {
		src.Tickets = slices.DeleteFunc(l.desk.memory.left(src.Key, nil), func(t Ticket) bool {
			return !strings.HasPrefix(t.Name, member) // not a share of this process
		})
	}
	src.read()
	l.desk.memory.keep(src)
	r := l.desk.decode(&src)
	var heirs []waiter
	for _, s := range r.owners {
		if s.Inst == l.desk.instance && s.fresh {
			heirs = append(heirs, waiter{Owner: s.Owner})
		}
	}
	r.revokes = (r.revokes || src.Version == 0) && known.Version <= max(src.Version, at)
	l.told(src.Key, r, heirs, now)
}

// told tells the guard what is new in a row: its claims that got the key in
// this step, its claims that find a record, and that others wait for its key.
func (l *lookout) told(key string, r *row, heirs []waiter, now time.Time) {
	behind := r.waiting()
	if r.revokes {
		for _, owner := range l.book.lost(key, r) {
			l.waker.Revoked(key, owner)
		}
	}
	for _, s := range r.owners {
		if !slices.ContainsFunc(heirs, func(w waiter) bool { return w.Owner == s.Owner }) {
			_, wanted := l.book.found(s.Owner, behind > 0, time.Time{})
			if wanted || s.Lingers && behind > 0 && s.Inst == l.desk.instance {
				l.waker.Wanted(key)
			}
			continue
		}
		length := time.Duration(s.Length-r.grain) * time.Microsecond
		w, _ := l.book.found(s.Owner, behind > 0, l.desk.over(now.Add(length)))
		late := w != nil && now.Sub(w.sent) > locker.QueueLife || w == nil && l.book.hasEnded(s.Owner)
		if w != nil && l.desk.traits.Clock {
			length = w.left(&s, r.grain)
		}
		o := locker.Offer{Length: length, Waiting: behind}
		if w == nil || w.claim.Fencing {
			o.Token = uint64(tokenOf(r.version, s.Token))
		}
		if late {
			l.waker.Orphaned(key, s.Owner)
		} else {
			l.waker.Granted(key, s.Owner, o)
		}
	}
	l.tellFinders(key, r)
}

// left returns how much of an offer is sure to be left when w was last seen to
// wait. A store may let others read the row as it was for some time after the
// hand-over, as while that waits for the disk (law 1).
func (w *waiting) left(s *share, grain int64) time.Duration {
	if w.seen == 0 {
		return 0 // the answer may still say that it waits
	}
	return time.Duration(max(0, min(s.Length, s.Ends-w.seen)-grain)) * time.Microsecond
}

// mind takes the claims of this process that go unseen out of their queues, and
// gives back keys whose leases are over. It is for a store without a clock.
func (l *lookout) mind() {
	for lockerkit.Pause(20*time.Millisecond, l.life.Context().Done()) {
		for _, e := range l.book.over() {
			l.waker.Orphaned(e.key, e.owner)
		}
	}
}

// poll looks until the locker ends.
func (l *lookout) poll() { l.book.bell.Look(l.life.Context().Done(), l.pause, l.lookDeaf) }

// pause returns the pause after a look that took so long. Processes that began
// together drift apart.
func (l *lookout) pause(took time.Duration) time.Duration {
	floor := pollIdle
	if l.book.waits() {
		floor = pollFloor
	}
	return max(floor, min(pollShare*took, pollCeil)) + limits.Jitter(floor/4)
}

// lookDeaf looks at all keys of this process if no message tells of them, and
// reports whether to look again.
func (l *lookout) lookDeaf() (again bool) {
	if !l.polls() {
		return !l.hears()
	}
	return l.lookAll()
}

// lookAll looks at all keys of this process, and reports whether there are any.
func (l *lookout) lookAll() bool {
	keys := l.book.watched()
	for page := range slices.Chunk(keys, pollPage) {
		l.look(page)
	}
	return len(keys) > 0
}

// look reads the rows of keys, and tells the guard what is new. An error costs
// time only: without messages the next look comes soon, and with them a renewal
// tells an owner.
func (l *lookout) look(keys []string) {
	ctx, cancel := context.WithTimeout(l.life.Context(), limits.Apart(pollLimit))
	defer cancel()
	sent := time.Now()
	found, err := l.desk.rows.Load(ctx, keys)
	if err != nil {
		return
	}
	for i, key := range keys {
		if found[i].Version == 0 {
			continue
		}
		l.desk.memory.same(&found[i])
		r := l.desk.decode(&found[i])
		l.tellFinders(key, r)
		for _, own := range r.owners {
			l.tell(key, r, own, sent)
		}
	}
}

// tellFinders tells the guard of claims that waited here and will find a
// record now.
func (l *lookout) tellFinders(key string, r *row) {
	found := r.counting()
	if found == nil {
		return
	}
	value := string(found.Value)
	if int64(len(value)) < found.Size { // it stands in a row of its own
		value = ""
	}
	for _, owner := range l.book.finders(key, r) {
		l.waker.Recorded(key, owner, value)
	}
}

// tell tells the guard what it does not know of an owner of key.
func (l *lookout) tell(key string, r *row, own share, sent time.Time) {
	behind := r.waiting()
	left := time.Duration(own.Ends-r.now)*time.Microsecond - l.desk.traits.Grain
	switch w, wanted := l.book.found(own.Owner, behind > 0, l.desk.over(sent.Add(left))); {
	case w != nil:
		l.grant(w, locker.Offer{Length: left, Token: uint64(own.Token), Waiting: behind}, sent)
	case wanted:
		l.waker.Wanted(key)
	}
}

// grant tells the guard that the claim of w owns its key. o is what the table
// says, and o.Length what a look that was sent at that time left of the offer.
// Nobody knows exactly when the key was handed over: a look that was answered
// before the write could be seen may have been sent after the time in the row.
// The guard counts the offer from the last look of the claim, which was not
// sent later than w.sent. If the row may end before, the length is not told,
// and the guard asks again.
func (l *lookout) grant(w *waiting, o locker.Offer, sent time.Time) {
	c, left := w.claim, o.Length
	if o.Length = 0; left+sent.Sub(w.sent) >= c.ShortOffer() {
		o.Length = c.ShortOffer()
	}
	if !c.Fencing {
		o.Token = 0
	}
	l.waker.Granted(c.Key, c.Owner, o)
}
