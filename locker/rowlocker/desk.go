package rowlocker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	// batchBytes bounds the records of a batch, because servers bound the
	// length of a request.
	batchBytes = 256 << 10
	backlogMax = 1024 // calls that wait for a worker before others block

	// batchLeast is the shortest limit of a batch. A batch has longer than an
	// impatient call, because others travel with that call.
	batchLeast = 100 * time.Millisecond
	// batchMost is the limit of a batch with a call that has no deadline.
	batchMost = 10 * time.Second
)

type (
	calls = lockerkit.Calls[request, reply]
	call  = lockerkit.Call[request, reply]
)

type reply struct {
	result

	err    error
	unsent bool // the store is as if the request had never been made
}

// failed returns the reply of a request that was not answered.
func failed(err error) reply { return reply{err: err, unsent: errors.Is(err, locker.ErrUnsent)} }

// desk brings calls to the rows, many at a time. A key is with one worker at a
// time, so that the calls of a process do not conflict.
type desk struct {
	rows     Rows
	traits   Traits
	pulse    Pulse // nil: the store has none
	instance string
	memory   *memory
	told     func(key string, r *row, heirs []waiter, sent time.Time) // what this process did for its own claims
	calls    calls

	mu     sync.Mutex         // guards what follows; never held across I/O
	busy   map[string]bool    // keys that are with a worker
	parked map[string][]*call // calls for them
}

func newDesk(rows Rows, traits Traits, instance string) *desk {
	d := &desk{
		rows: rows, traits: traits, instance: instance, memory: newMemory(),
		calls: make(calls, backlogMax), busy: map[string]bool{}, parked: map[string][]*call{},
	}
	d.pulse, _ = rows.(Pulse)
	return d
}

// do blocks until the request is answered or ctx ends.
func (d *desk) do(ctx context.Context, q request) reply {
	began := time.Now()
	r, unsent, err := d.calls.Do(ctx, q)
	return d.gaveUp(began, r, unsent, err)
}

// gaveUp returns the reply to a call that was made at that time. err is why its
// caller gave up; nil: it was answered.
func (d *desk) gaveUp(began time.Time, r reply, unsent bool, err error) reply {
	if err == nil {
		return r
	}
	rows, explains := d.rows.(Explaining)
	switch {
	case unsent:
		err = fmt.Errorf("%w: %s: %w: %w", locker.ErrUnavailable, d.traits.Name, locker.ErrUnsent, err)
	case explains:
		err = rows.Unanswered(began, err)
	default:
		err = fmt.Errorf("%w: %s: %w", locker.ErrUnavailable, d.traits.Name, err)
	}
	return reply{err: err, unsent: unsent}
}

// post is the first half of do.
func (d *desk) post(ctx context.Context, q request) (*call, error) {
	return d.calls.Post(ctx, q)
}

// work serves the calls of a worker until ctx ends.
func (d *desk) work(ctx context.Context) {
	cs := d.calls
	size := func(q *request) int { return len(q.value) }
	var all []*task
	for ctx.Err() == nil {
		var batch []*call
		rest := due(all)
		n := d.traits.Batch - len(all)
		switch {
		case len(all) == 0 || rest > 0 && n > 0:
			var timer <-chan time.Time
			if len(all) > 0 {
				timer = time.After(rest)
			}
			select {
			case first := <-cs:
				batch = cs.Gather(first, n, batchBytes, size)
			case <-timer:
			case <-ctx.Done():
				return
			}
		case n > 0:
			select {
			case first := <-cs:
				batch = cs.Gather(first, n, batchBytes, size)
			default:
			}
		default:
			lockerkit.Pause(rest, ctx.Done())
		}
		all = join(all, d.mine(all, batch))
		ready, later := d.ready(all)
		all = append(later, d.next(ready, d.round(ctx, ready))...)
	}
}

// mine returns the calls that are this worker's, and parks those for the keys
// of another.
func (d *desk) mine(all []*task, batch []*call) (mine []*call) {
	own := make(map[string]bool, len(all))
	for _, t := range all {
		own[t.key] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range batch {
		key := c.Request.key
		if !own[key] && d.busy[key] {
			d.parked[key] = append(d.parked[key], c)
			continue
		}
		own[key], d.busy[key] = true, true
		mine = append(mine, c)
	}
	return mine
}

// next returns the tasks that are not done, with the calls that were parked
// meanwhile.
func (d *desk) next(were, rest []*task) []*task {
	left := make(map[string]bool, len(rest))
	for _, t := range rest {
		left[t.key] = true
	}
	var parked []*call
	d.mu.Lock()
	for _, t := range were {
		calls := d.parked[t.key]
		delete(d.parked, t.key)
		if len(calls) == 0 && !left[t.key] {
			delete(d.busy, t.key)
		}
		parked = append(parked, calls...)
	}
	d.mu.Unlock()
	return join(rest, parked)
}

// lookGather is how long a look waits for others to travel with. It is in no
// hurry, because a message tells what it would find.
const lookGather = 20 * time.Millisecond

// ready returns the tasks that may be tried, and the others. Looks that need a
// read are put off once, and go when one of them may or the batch is full.
func (d *desk) ready(all []*task) (ready, later []*task) {
	now, full := time.Now(), len(all) >= d.traits.Batch
	for _, t := range all {
		looks := t.tries == 0 && !slices.ContainsFunc(t.qs, func(q *request) bool { return !q.try.Queued })
		switch {
		case !looks && t.gathers:
			if t.gathers = false; t.tries == 0 {
				t.after = time.Time{}
			}
		case looks && t.after.IsZero() && d.told != nil && !d.blind(t):
			t.gathers, t.after = true, now.Add(lookGather)
		}
		full = full || t.gathers && !t.after.After(now)
	}
	for _, t := range all {
		if t.after.After(now) && !(full && t.gathers) {
			later = append(later, t)
		} else {
			ready = append(ready, t)
		}
	}
	return ready, later
}

// due returns how long it is until one of the tasks may be tried.
func due(all []*task) (rest time.Duration) {
	for i, t := range all {
		if d := time.Until(t.after); i == 0 || d < rest {
			rest = d
		}
	}
	return max(0, rest)
}

// stepBack puts a task off that was refused again and again, and that only
// joins a queue: who hands the key over must not lose against it.
func (t *task) stepBack(took time.Duration) {
	if t.tries < 2 {
		return
	}
	for _, q := range t.qs {
		if q.verb != acquire {
			return
		}
	}
	t.after = time.Now().Add(rand.N(took<<min(t.tries-1, 4) + 1))
	t.have = false // what the refusal told will be old
}

// task is what is to be done about one key.
type task struct {
	key   string
	calls []*call
	qs    []*request

	src     Row
	have    bool // src is set
	sure    bool // src was read for these calls, by a load or a refusal
	tries   int
	after   time.Time // not to be tried before
	gathers bool      // it is a look that waits for others, until after
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
			byKey[t.key] = t
			all = append(all, t)
		}
		t.calls, t.qs = append(t.calls, c), append(t.qs, &c.Request)
		if c.Request.verb != acquire {
			t.after = time.Time{}
		}
	}
	return all
}

// round sends what there is to send about the tasks once, and returns those
// that are not done.
func (d *desk) round(ctx context.Context, all []*task) (rest []*task) {
	all = drop(all)
	if len(all) == 0 {
		return nil
	}
	var waiting []*call
	for _, t := range all {
		waiting = append(waiting, t.calls...)
	}
	limit := max(batchLeast, min(batchMost, time.Until(lockerkit.Patience(waiting, batchMost))))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := func(t *task, err error) {
		for i, c := range t.calls {
			if err != nil {
				c.Answer(failed(err))
			} else {
				c.Answer(reply{result: t.results[i]})
			}
		}
	}
	return d.attempt(ctx, all, done)
}

// drop takes out the calls whose callers have given up.
func drop(all []*task) (left []*task) {
	for _, t := range all {
		calls, qs := t.calls[:0], t.qs[:0]
		for i, c := range t.calls {
			if c.Ctx.Err() == nil {
				calls, qs = append(calls, c), append(qs, t.qs[i])
			} else if t.tries > 0 {
				c.Answer(failed(errors.Join(locker.ErrUnavailable, locker.ErrUnsent, c.Ctx.Err())))
			} else {
				calls, qs = append(calls, c), append(qs, t.qs[i])
			}
		}
		t.calls, t.qs = calls, qs
		if len(calls) > 0 {
			left = append(left, t)
		}
	}
	return left
}

// attempt loads what must be loaded, applies the requests, and swaps. done is
// called for each task that is over. Those that are not are returned.
func (d *desk) attempt(ctx context.Context, all []*task, done func(*task, error)) (rest []*task) {
	if err := d.load(ctx, all); err != nil {
		for _, t := range all {
			done(t, errors.Join(err, locker.ErrUnsent)) // nothing of this task was written
		}
		return nil
	}
	var changes []*Change
	var sent []*task
	for i, t := range all {
		t.tries++
		if err := d.apply(ctx, t); err != nil {
			done(t, err)
			continue
		}
		switch {
		case t.change != nil:
			changes, sent = append(changes, t.change), append(sent, t)
		case t.sure:
			err := d.beat(ctx, all[i:i+1])
			if err == nil {
				err = d.values(ctx, t)
			}
			done(t, err)
		default: // nothing verifies what is known
			t.have = false
			rest = append(rest, t)
		}
	}
	if len(changes) == 0 {
		return rest
	}
	began := time.Now()
	if err := d.beat(ctx, sent); err != nil {
		for _, t := range sent {
			done(t, errors.Join(err, locker.ErrUnsent))
		}
		return rest
	}
	err := d.rows.Swap(ctx, changes)
	for _, t := range sent {
		switch c := t.change; {
		case err != nil || c.Err != nil:
			d.memory.forget(t.key)
			done(t, errors.Join(err, c.Err))
		case c.Done && c.Join != nil:
			d.joined(t)
			done(t, nil)
		case c.Done:
			d.settle(t, began)
			if err := d.values(ctx, t); err != nil {
				done(t, err)
				continue
			}
			done(t, nil)
		default:
			if d.pulse != nil && len(c.Dead) > 0 {
				d.memory.pulses(c.Dead, c.Dead)
			}
			t.src, t.have, t.sure = c.Current[0], true, true
			t.refused = c.Join != nil
			d.memory.clock(t.src.Now)
			d.memory.keep(t.src)
			t.stepBack(time.Since(began))
			rest = append(rest, t)
		}
	}
	return rest
}

// load sets the row of each task: the one that is known, or one that is read.
func (d *desk) load(ctx context.Context, all []*task) error {
	var keys []string
	var which []*task
	for _, t := range all {
		if t.have {
			continue
		}
		if t.tries == 0 && d.blind(t) {
			t.have = true
			continue
		}
		keys, which = append(keys, t.key), append(which, t)
	}
	if len(keys) == 0 {
		return nil
	}
	read := d.rows.Load
	if g, ok := d.rows.(Glancing); ok && !slices.ContainsFunc(which, func(t *task) bool { return !t.glances() }) {
		read = g.Glance
	}
	rows, err := read(ctx, keys)
	if err != nil {
		return err
	}
	for i, t := range which {
		t.src, t.have, t.sure = rows[i], true, true
		d.memory.clock(t.src.Now)
		d.memory.keep(t.src)
	}
	return nil
}

// glances reports whether the requests need no tickets of others. What such a
// row is wrong about, a refusal tells.
func (t *task) glances() bool {
	return t.tries < 2 && !slices.ContainsFunc(t.qs, func(q *request) bool { return q.verb != acquire })
}

// blind reports whether the requests may be applied to what is known of the
// row, which it sets. A look at a key that another claim owns is better a read.
func (d *desk) blind(t *task) bool {
	if !d.traits.Blind || d.traits.Clock && d.memory.storeNow() == 0 {
		return false
	}
	known, ok := d.memory.known(t.key)
	for _, q := range t.qs {
		looks := q.verb == acquire && (q.try.Held || q.try.Queued)
		if q.verb == forget || looks && (!ok || !d.names(&known, q.owner)) {
			return false
		}
	}
	if t.src = known; !ok {
		t.src = Row{Key: t.key}
	}
	return true
}

// names reports whether owner owns the key of a row that is known.
func (d *desk) names(known *Row, owner string) bool {
	return bytes.Contains(known.Value, []byte(owner)) && d.decode(known).owned(owner)
}

// decode returns the row of a task.
func (d *desk) decode(src *Row) *row {
	if d.traits.Clock && d.traits.Blind {
		src.Now = max(src.Now, d.memory.storeNow())
	}
	r := decode(src, &d.traits, d.memory, d.memory.now())
	if d.pulse != nil {
		r.pulse, r.dead = true, d.memory.dead
	}
	return r
}

// closeTries is how often who closes an open row may be refused because others
// come and go beside it.
const closeTries = 3

// apply applies the requests of a task to its row, and sets its change if there
// is anything to write.
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
		d.memory.pulses(ask, dead)
	}
	if t.r.dirty {
		if t.change = d.joinOf(t); t.change == nil {
			t.change = d.changeOf(t)
			main := &t.change.Rows[0]
			closes := t.r.open && len(main.Value) > 0 && main.Value[0] == '/'
			if closes && t.tries <= closeTries {
				main.Alone = true // all who share the key are told
			}
			if !t.sure && (t.r.closing || t.r.open && main.Alone || closes) {
				t.change = nil // who shares the key must be known exactly
			}
		}
	}
	return nil
}

// memberOf returns the Change of a task by which a share comes to an open row,
// is renewed, or goes, or nil.
func (d *desk) memberOf(t *task) *Change {
	if !d.traits.Members || !t.r.open || len(t.qs) != 1 || t.refused || len(t.r.queue) > 0 || t.r.owner != "" {
		return nil
	}
	q := t.qs[0]
	name := member + q.owner
	at := slices.IndexFunc(t.r.tickets, func(t Ticket) bool { return t.Name == name })
	j := &Join{Key: t.key, Tag: t.r.tag, Ticket: Ticket{Name: name}, Open: true, KeepFor: time.Duration(q.ttl) * time.Microsecond}
	switch {
	case !t.results[0].ok || t.r.record.owner != "" || t.r.record.dirty:
		return nil
	case q.verb == acquire && q.limit >= locker.NoLimit && !q.fencing && !q.recall, q.verb == renew && at >= 0:
		own := t.r.share(q.owner)
		if own == nil || slices.Contains(t.r.inRow, q.owner) {
			return nil
		}
		own.Since, j.Held = 0, q.verb == renew
		j.Value, _ = json.Marshal(own)
		return &Change{Join: j}
	case q.verb == release && q.next == "" && at >= 0 && !t.r.owned(q.owner):
		j.Leave, j.Held = true, true
		return &Change{Join: j, Loose: true}
	}
	return nil
}

// joinOf returns the Change of a task that only joins the queue of a key which
// one claim owns, or nil.
func (d *desk) joinOf(t *task) *Change {
	if c := d.memberOf(t); c != nil {
		return c
	}
	if _, ok := d.rows.(Ticketing); !ok || len(t.qs) != 1 || !t.r.joined || t.refused || !t.r.alone() || t.r.version == 0 {
		return nil
	}
	q := t.qs[0]
	if q.verb != acquire || q.recall || q.try.Place != 0 || t.r.lingers || !t.results[0].queued || len(t.r.heirs) > 0 {
		return nil
	}
	w := waiter{q.owner, q.inst, int64(q.try.Place), 0, 0, q.offer, q.limit, q.fencing, false, q.holder, false}
	value, err := json.Marshal(w)
	if err != nil {
		return nil
	}
	j := &Join{Key: t.key, Tag: t.r.tag, Ticket: Ticket{Name: q.owner, Value: value}, To: t.r.inst, KeepFor: locker.QueueLife}
	if j.To == d.instance {
		j.To = ""
	}
	return &Change{Join: j, Loose: true}
}

// changeOf returns the Change that writes the row of a task.
func (d *desk) changeOf(t *task) *Change {
	c := &Change{Rows: encode(t.key, t.r, &d.traits), Loose: t.r.loose()}
	if _, hears := d.rows.(Ears); !hears {
		return c
	}
	at := map[string]int{}
	tell := func(to string, must bool) {
		if to == "" || to == d.instance {
			return
		}
		i, ok := at[to]
		if !ok {
			i = len(c.Tell)
			at[to], c.Tell = i, append(c.Tell, Message{To: to})
		}
		c.Tell[i].Must = c.Tell[i].Must || must && d.pulse != nil
	}
	for _, w := range t.r.heirs {
		tell(w.Inst, true)
	}
	for _, w := range t.r.finds {
		tell(w.Inst, false)
	}
	for _, instance := range t.r.revoked {
		tell(instance, false)
	}
	if t.r.joined {
		for _, s := range t.r.owners() {
			tell(s.Inst, false)
		}
	}
	return c
}

// beat gives this process a pulse before a claim of its own may wait, and keeps
// it while the claim is seen to wait.
func (d *desk) beat(ctx context.Context, sent []*task) error {
	if d.pulse == nil {
		return nil
	}
	for _, t := range sent {
		for _, res := range t.results {
			if res.queued {
				return d.pulse.Beat(ctx, d.instance)
			}
		}
	}
	return nil
}

// joined notes that a ticket of this process stands beside a row.
func (d *desk) joined(t *task) {
	j := t.change.Join
	j.Version = t.change.Version
	if j.Open {
		d.memory.member(t.key, j.Ticket, j.Leave)
		return
	}
	if t.qs[0].try.Place == 0 {
		t.results[0].place = j.Version
	}
	src, ok := d.memory.add(t.key, j.Ticket)
	if ok && t.r.inst == d.instance && d.told != nil {
		d.told(t.key, d.decode(&src), nil, time.Now())
	}
}

// settle notes that the change of a task was carried out.
func (d *desk) settle(t *task, began time.Time) {
	main := t.change.Rows[0]
	if main.Value == nil {
		d.memory.keep(Row{Key: t.key})
	} else if t.change.Version > 0 {
		main.Version, main.Written = t.change.Version, t.change.Written
		main.Tickets, main.Drop, main.Alone = d.memory.left(t.key, main.Drop), nil, false
		d.memory.clock(t.change.Written)
		d.memory.keep(main)
		if !d.traits.Clock {
			d.memory.first(t.key, main.Version, d.memory.now())
		}
		d.memory.tidy(t.key, t.r)
	}
	for i := range t.results {
		t.results[i].token = tokenOf(t.change.Version, t.results[i].token)
	}
	t.r.version = t.change.Version
	if d.told == nil {
		return
	}
	var heirs []waiter
	for _, w := range t.r.heirs {
		if w.Inst == d.instance && !t.asks(w.Owner) {
			heirs = append(heirs, w)
		}
	}
	finds := slices.Contains(t.r.revoked, d.instance)
	for _, w := range t.r.finds {
		finds = finds || w.Inst == d.instance
	}
	wanted := false
	if t.r.joined {
		for _, s := range t.r.owners() {
			wanted = wanted || s.Inst == d.instance
		}
	}
	if len(heirs) > 0 || finds || wanted {
		d.told(t.key, t.r, heirs, began)
	}
}

// asks reports whether owner acquires the key by one of the requests.
func (t *task) asks(owner string) bool {
	for _, q := range t.qs {
		if q.verb == acquire && q.owner == owner {
			return true
		}
	}
	return false
}

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
		value := string(rows[0].Value)
		if n := len(res.long); len(value) > n && value[:n] == res.long {
			res.record = []byte(value[n+1:])
			continue
		}
		return errors.Join(locker.ErrUnavailable, errors.New(d.traits.Name+": the record has just changed"))
	}
	return nil
}

const renewFlights = 4 // requests of one Renew at a time

// renew carries out requests in as few requests to the store as it takes,
// beside the workers.
func (d *desk) renew(ctx context.Context, qs []*request, answered func(i int, r reply)) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, batchMost)
		defer cancel()
	}
	byKey, at := map[string]*task{}, map[*task][]int{}
	var ts []*task
	for i, q := range qs {
		t := byKey[q.key]
		if t == nil {
			t = &task{key: q.key}
			byKey[q.key], ts = t, append(ts, t)
		}
		t.qs, at[t] = append(t.qs, q), append(at[t], i)
	}
	turns := make(chan struct{}, renewFlights)
	var all sync.WaitGroup
	for some := range slices.Chunk(ts, d.traits.Batch) {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			for len(some) > 0 {
				some = d.attempt(ctx, some, func(t *task, err error) {
					for n, i := range at[t] {
						if err != nil {
							answered(i, failed(err))
						} else {
							answered(i, reply{result: t.results[n]})
						}
					}
				})
			}
		})
	}
	all.Wait()
}

// together applies requests for different keys as one step. apply is called
// with their rows, perhaps several times.
func (d *desk) together(ctx context.Context, qs []*request, apply func(rows map[string]*row) []result) ([]result, error) {
	ts := make([]*task, len(qs))
	for i, q := range qs {
		ts[i] = &task{key: q.key, qs: qs[i : i+1]}
	}
	for {
		if err := d.load(ctx, ts); err != nil {
			return nil, errors.Join(err, locker.ErrUnsent)
		}
		rows := map[string]*row{}
		for _, t := range ts {
			t.tries++
			t.r = d.decode(&t.src)
			rows[t.key] = t.r
		}
		results := apply(rows)
		again := false
		for _, t := range ts {
			if !t.r.dirty && !t.sure { // nothing verifies what is known
				t.have, again = false, true
			}
		}
		if again {
			continue
		}
		whole := &Change{}
		for i, t := range ts {
			t.results, t.change = results[i:i+1], nil
			if !t.r.dirty {
				continue
			}
			t.change = d.changeOf(t)
			for _, m := range t.change.Tell {
				m.Row += len(whole.Rows)
				whole.Tell = append(whole.Tell, m)
			}
			whole.Rows = append(whole.Rows, t.change.Rows...)
			whole.Loose = false
		}
		if len(whole.Rows) == 0 {
			return results, nil
		}
		began := time.Now()
		if err := d.rows.Swap(ctx, []*Change{whole}); err != nil {
			for _, t := range ts {
				d.memory.forget(t.key)
			}
			return nil, err
		}
		at := 0
		for i, t := range ts {
			if t.change == nil {
				continue
			}
			if whole.Done {
				t.change.Version, t.change.Written = whole.Version, whole.Written
				t.change.Rows[0].Tag = whole.Rows[at].Tag
				d.settle(t, began)
				results[i] = t.results[0]
			} else {
				t.src, t.have, t.sure = whole.Current[at], true, true
				d.memory.keep(t.src)
			}
			at += len(t.change.Rows)
		}
		if whole.Done {
			return results, nil
		}
		if d.pulse != nil && len(whole.Dead) > 0 {
			d.memory.pulses(whole.Dead, whole.Dead)
		}
	}
}

// applyAll applies a batch to its rows.
func applyAll(rows map[string]*row, batch []*request) []result {
	results := make([]result, len(batch))
	for i, q := range batch {
		results[i] = rows[q.key].apply(q)
	}
	return results
}

// acquireAll applies a batch to its rows, each key once.
func acquireAll(rows map[string]*row, batch []*request, prefix bool) (results []result, held int) {
	results = make([]result, len(batch))
	for held < len(batch) {
		q := batch[held]
		if r := rows[q.key]; !r.free() && !r.owned(q.owner) {
			results[held] = r.apply(q) // says who owns it
			break
		}
		held++
	}
	if held < len(batch) && !prefix {
		return results, held
	}
	for i, q := range batch[:held] {
		results[i] = rows[q.key].apply(q)
	}
	return results, held
}
