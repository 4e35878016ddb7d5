package rowlocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// task is what is to be done about one key: calls, in their order. A task is
// tried until the store has carried out its change, or its calls have an answer
// without one.
//
//	what is known of the row            what is sent            what a refusal means
//	nothing, of a store with Blind      Swap of a free key      there is a row: it comes along, try again
//	the row of the last Swap, refusal   Swap over it            somebody has written it: the same
//	or message, of such a store
//	anything else; or the call looks    Load, then Swap if      the same
//	at the key of another claim         something changes
//
// The answer to a call that changes nothing must not come from what is merely
// known: the row is then read. A row is sure if it was read, or came with a
// refusal, for this very task.
//
// What a Swap sends depends on what the calls have made of the row:
//
//	the change                          as                      if refused
//	a claim joins the queue of a key    Join: a ticket beside   the key has changed hands: the row is swapped
//	that one claim owns                 the row
//	a share comes to, or goes from, a   Join with Open          the row is closed: it is swapped
//	row that only shares own
//	anything else                       the row                 see above
//
// From its second refusal on, a task that only acquires steps back, so that it
// does not get in the way of who hands the key over. So does one that was
// refused though its row is as it was.
type task struct {
	key   string
	calls []*call
	qs    []*request

	src     Row
	have    bool // src is set
	sure    bool // src was read for these calls, by a load or a refusal
	glanced bool // by a Glance: src may lack tickets
	tries   int
	after   time.Time // not to be tried before
	refused bool      // a ticket was

	r       *row
	results []result
	change  *Change
}

// join adds calls to the tasks of their keys.
func join(all []*task, batch []*call) []*task {
	byKey := make(map[string]*task, len(all)+len(batch))
	for _, t := range all {
		byKey[t.key] = t
	}
	for _, c := range batch {
		t := byKey[c.Request.key]
		if t == nil {
			t = &task{key: c.Request.key}
			byKey[t.key], all = t, append(all, t)
		}
		t.calls, t.qs = append(t.calls, c), append(t.qs, &c.Request)
		if c.Request.verb != acquire {
			t.after = time.Time{}
		}
	}
	return all
}

// acquires reports whether all requests are to acquire the key.
func (t *task) acquires() bool {
	return !slices.ContainsFunc(t.qs, func(q *request) bool { return q.verb != acquire })
}

// asks reports whether owner acquires the key by one of the requests.
func (t *task) asks(owner string) bool {
	return slices.ContainsFunc(t.qs, func(q *request) bool { return q.verb == acquire && q.owner == owner })
}

// againMost is the longest pause of a task that steps back, even if the store
// is slow: claims that look wait with the task, and one of them may own the key
// by now.
const againMost = 50 * time.Millisecond

// stepBack puts off a task that was refused after a request that took so long.
func (t *task) stepBack(took time.Duration, unchanged bool) {
	if t.tries < 2 || !unchanged && !t.acquires() {
		return
	}
	pause := min(took<<min(t.tries-1, 4), againMost)
	t.have = unchanged // else what the refusal told will be old
	t.after = time.Now().Add(limits.Jitter(pause + 1))
}

// done answers the calls.
func (t *task) done(err error) {
	for i, c := range t.calls {
		if err != nil {
			c.Answer(failed(err))
		} else {
			c.Answer(reply{result: t.results[i]})
		}
	}
}

// knows sets the row, which was read for this task.
func (d *desk) knows(t *task, src Row) {
	d.memory.same(&src)
	src.read()
	t.src, t.have, t.sure, t.glanced = src, true, true, false
	d.memory.clock(src.Now)
	d.memory.keep(src)
}

// attempt loads what must be loaded, applies the requests, and swaps. It
// returns the tasks that are to be tried again, and answers the others.
func (d *desk) attempt(ctx context.Context, all []*task) (rest []*task) {
	if err := d.load(ctx, all); err != nil {
		for _, t := range all {
			t.done(unwritten(err))
		}
		return nil
	}
	var sent []*task
	for _, t := range all {
		t.tries++
		err := d.apply(ctx, t)
		switch {
		case err != nil:
			t.done(err)
		case t.change != nil:
			sent = append(sent, t)
		case t.sure:
			t.answeredAt(t.src.Now)
			if err = d.beat(ctx, t); err == nil {
				err = d.values(ctx, t)
			}
			if errors.Is(err, errNoValue) && !t.src.Forgot {
				t.src.Forgot = true
				rest = append(rest, t)
				continue
			}
			t.done(err)
		default: // nothing verifies what is known
			t.have = false
			rest = append(rest, t)
		}
	}
	if len(sent) == 0 {
		return rest
	}
	return append(rest, d.swap(ctx, sent)...)
}

// unwritten returns the error of a task that asked in vain before it wrote
// anything. The guard takes what was not sent for no silence of the store.
func unwritten(err error) error {
	if errors.Is(err, locker.ErrSilent) {
		return err
	}
	return errors.Join(err, locker.ErrUnsent)
}

// swap sends the changes of the tasks, and returns those that were refused.
func (d *desk) swap(ctx context.Context, sent []*task) (rest []*task) {
	began, changes := time.Now(), make([]*Change, len(sent))
	for i, t := range sent {
		changes[i] = t.change
	}
	err := d.beat(ctx, sent...)
	if err != nil {
		err = unwritten(err)
	} else {
		err = d.rows.Swap(ctx, changes)
	}
	for _, t := range sent {
		switch c := t.change; {
		case err != nil || c.Err != nil:
			d.memory.forget(t.key)
			t.done(errors.Join(err, c.Err))
		case c.Done && c.Join != nil:
			d.joined(t)
			t.done(nil)
		case c.Done:
			d.settle(t, began)
			t.done(d.values(ctx, t))
		default:
			d.died(c)
			t.refused = c.Join != nil
			old, now := t.src, c.Current[0]
			d.knows(t, now)
			t.stepBack(time.Since(began),
				now.Version == old.Version && len(now.Tickets) == len(old.Tickets) && len(c.Dead) == 0)
			rest = append(rest, t)
		}
	}
	return rest
}

// died notes the processes that would not have heard of a change.
func (d *desk) died(c *Change) {
	if d.pulse != nil && len(c.Dead) > 0 {
		d.memory.heard(c.Dead, c.Dead)
	}
}

// load sets the row of each task: the one that is known, or one that is read.
func (d *desk) load(ctx context.Context, all []*task) error {
	var keys []string
	var which []*task
	for _, t := range all {
		t.have = t.have || t.tries == 0 && d.blind(t)
		if !t.have {
			keys, which = append(keys, t.key), append(which, t)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	read, glanced := d.rows.Load, false
	if g, ok := d.rows.(Glancing); ok && !slices.ContainsFunc(which, func(t *task) bool { return !t.glances() }) {
		read, glanced = g.Glance, true
	}
	rows, err := read(ctx, keys)
	if err != nil {
		return err
	}
	for i, t := range which {
		d.knows(t, rows[i])
		t.glanced = glanced
	}
	return nil
}

// answeredAt notes when the store gave the answer, by its clock.
func (t *task) answeredAt(now int64) {
	for i := range t.results {
		t.results[i].now = now
	}
}

// glances reports whether the requests need no tickets of others. What such a
// row is wrong about, a refusal tells.
func (t *task) glances() bool { return t.tries < 2 && t.acquires() }

// blind reports whether the requests may be applied to what is known of the
// row, which it sets.
func (d *desk) blind(t *task) bool {
	if !d.traits.Blind || d.traits.Clock && d.memory.storeNow() == 0 {
		return false
	}
	for _, q := range t.qs {
		looks := q.verb == acquire && (q.try.Held || q.try.Queued)
		if q.verb == forget || looks && !d.owns(q) && (len(t.qs) > 1 || !d.joinable(q)) {
			return false
		}
	}
	known, ok := d.memory.known(t.key)
	if t.src = known; !ok {
		t.src = Row{Key: t.key}
	}
	return true
}

// owns reports whether the owner of q owns the key of a row that is known.
func (d *desk) owns(q *request) bool {
	known, ok := d.memory.known(q.key)
	return ok && bytes.Contains(known.Value, []byte(q.owner)) && d.decode(&known).owned(q.owner)
}

// joinable reports whether a ticket is likely to be all that q needs, which
// gets in nobody's way if the row that is known is old.
func (d *desk) joinable(q *request) bool {
	known, ok := d.memory.known(q.key)
	return ok && d.traits.Tickets && q.try.Wait && !q.try.Queued && q.try.Place == 0 && d.decode(&known).alone() != nil
}

// decode returns what src says.
func (d *desk) decode(src *Row) *row {
	if d.traits.Clock && d.traits.Blind {
		src.Now = max(src.Now, d.memory.storeNow())
	}
	r := decode(src, &d.traits, d.memory, d.memory.now())
	if d.pulse != nil {
		r.dead = d.memory.dead
	}
	return r
}

// apply applies the requests of a task to its row, and sets its change if there
// is anything to write. Before that it asks for the pulses of processes that
// keep others out.
func (d *desk) apply(ctx context.Context, t *task) error {
	for {
		t.r, t.results, t.change = d.decode(&t.src), make([]result, len(t.qs)), nil
		for i, q := range t.qs {
			if q.lapsed {
				t.r.lapse(q.owner)
			}
			t.results[i] = t.r.apply(q)
		}
		ask := d.memory.stale(t.r.doubts)
		if len(ask) == 0 || d.pulse == nil {
			break
		}
		dead, err := d.pulse.Dead(ctx, ask)
		if err != nil {
			return err
		}
		d.memory.heard(ask, dead)
	}
	if t.r.dirty {
		t.change = d.plan(t)
	}
	return nil
}

// beat gives this process a pulse before a claim of its own may wait, and keeps
// it while the claim is seen to wait.
func (d *desk) beat(ctx context.Context, ts ...*task) error {
	if d.pulse == nil {
		return nil
	}
	for _, t := range ts {
		if slices.ContainsFunc(t.results, func(r result) bool { return r.queued }) {
			return d.pulse.Beat(ctx, d.instance)
		}
	}
	return nil
}

// errNoValue says that a record has ended, though its row does not say so yet.
var errNoValue = errors.New("the record has just ended")

// values fills in the records that do not stand in the row of their key.
func (d *desk) values(ctx context.Context, t *task) error {
	for i := range t.results {
		res := &t.results[i]
		if res.long == "" {
			continue
		}
		rows, err := d.rows.Load(ctx, []string{t.key + recordSuffix})
		if err != nil {
			return err
		}
		value, ok := bytes.CutPrefix(rows[0].Value, []byte(res.long+"/"))
		if len(rows[0].Value) == 0 {
			return fmt.Errorf("%w: %s: %w", locker.ErrUnavailable, d.traits.Name, errNoValue)
		}
		if !ok || len(value) == 0 {
			return fmt.Errorf("%w: %s: the record has just changed", locker.ErrUnavailable, d.traits.Name)
		}
		res.record = value
	}
	return nil
}
