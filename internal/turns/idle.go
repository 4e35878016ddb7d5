package turns

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// An idler is what a grant that may be idle has beside the others. Nobody has a
// turn on an idle grant, and the process keeps the key for its next call. Its
// gate has the grant and an empty floor then:
//
//	   last turn ends                  a call joins
//	on ──────────────► idle ──────────────────────────────────► on
//	                    │ another process wants the key, Linger or the tenure
//	                    │ is over, messages may be missed, a call on other terms
//	                    ▼ joins, somebody releases the key by force, Close
//	                  released, by a warden
//
// A warden is a turn without a caller. It has the floor while it releases the
// key, so a call that comes meanwhile stands in line behind it.
//
// The grant's mutex guards all but set.
type idler struct {
	set *Settings // of the turn that acquired the grant
	// brief says that the grant may become idle: its lease is a short one, and
	// no renewal has begun. A process that dies with an idle key costs the
	// others that lease, and an idle grant is renewed only to find out whether
	// it is still held.
	brief    bool
	node     string    // of the key, see [outages]
	retained bool      // the gate is kept alive until the grant ends
	taken    int       // how often a call took the idle grant
	since    time.Time // when the last turn ended
	armed    time.Time // when the grant's timer fires at the latest; zero: it has fired
}

// mayIdle reports whether the grant may be idle. l may be nil.
func (l *idler) mayIdle() bool { return l != nil && l.brief }

// end reports whether the gate is retained, which the caller must leave then. l
// may be nil.
func (l *idler) end() (retained bool) {
	if l != nil {
		retained, l.retained = l.retained, false
	}
	return retained
}

// The methods below are those of a grant.

// linger makes gr, which t has just won by a claim that lingers, one that may
// be idle. gr is not shared yet. A grant that came by way of the queue ends as
// any other: an offer must be confirmed, and others want the key.
func (gr *grant) linger(t *Turn, now time.Time) {
	gr.renewSoon(now)
	if gr.bid.queued {
		return
	}
	gr.idler = &idler{set: t.set, brief: true, node: gr.outages.domain(gr.gate.name)}
	gr.tenure.longest = max(limits.Idle(gr.trust.length), limits.TenureTime)
	if !gr.bid.terms.fencing { // otherwise one block of tokens is for all turns
		gr.tenure.last = math.MaxInt
	}
}

// commit ends that gr may be idle, because it is about to get its full TTL. A
// key whose turns are that long need not linger. gr.mu is held.
func (gr *grant) commit() {
	if gr.idler.mayIdle() {
		gr.idler.brief = false
		gr.tenure.longest = limits.TenureTime
		gr.habits.ended(gr.gate.name, gr.idler.taken)
	}
}

// idle begins the time in which nobody has a turn on gr, for d at most. idle
// returns false if gr must be released. The tenure is over if another process
// wants the key, or messages may have been missed.
func (gr *grant) idle(d time.Duration, now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	end := earlier(now.Add(d), gr.trust.sent().Add(limits.Idle(gr.trust.length)))
	if gr.cause != nil || !gr.idler.mayIdle() || !gr.tenure.open(now) || !now.Before(end) {
		return false
	}
	gr.tenure.stay(end)
	gr.idler.since, gr.renewAt = now, time.Time{}
	if !gr.idler.retained {
		gr.idler.retained = true
		gr.gate.retain() // until finish or lose
	}
	gr.arm(now)
	return true
}

// resume reports whether another turn may begin on gr, which is idle.
func (gr *grant) resume(now time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if !gr.good(now) || !gr.tenure.open(now) {
		return false
	}
	gr.idler.taken++
	return true
}

// The methods below are those of a gate. The mutex is held, unless they say
// that they take it.

// leaveIdle leaves gr, which t has on the floor with nobody in line and does not
// use any longer, to the next call. leaveIdle returns false if the key must be
// released.
func (gt *gate) leaveIdle(t *Turn, gr *grant, now time.Time) bool {
	if gr.idler == nil {
		return false
	}
	select {
	case <-gt.calls.closing: // Close has looked for idle keys, or is about to
		return false
	default:
	}
	if !gr.idle(t.set.Linger, now) {
		return false
	}
	gt.floor = nil
	return true
}

// joinIdle gives t the floor with the idle grant, if t may use that. Otherwise
// a warden releases the key.
func (gt *gate) joinIdle(t *Turn, now time.Time) bool {
	gr := gt.idle()
	if gr == nil {
		return false
	}
	if !gr.bid.terms.serve(t.terms()) || !gr.resume(now) {
		gt.rouse()
		return false
	}
	gt.habits.paid()
	gt.floor, t.idle = t, true
	return true
}

// rouse gives the floor to a new warden, which releases the idle grant. rouse
// does nothing if there is none.
func (gt *gate) rouse() {
	gr := gt.idle()
	if gr == nil {
		return
	}
	gt.errands.begin() // under a grant that has not ended; until retire
	gt.retain()
	gt.floor = &Turn{common: gt.common, gate: gt, set: gr.idler.set, events: gr.events, grant: gr, waiting: waiting{warden: true}}
	gt.wardens.add(gt.floor)
}

// endIdle takes the mutex, and releases gr if gr is idle.
func (gt *gate) endIdle(gr *grant) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.idle() == gr {
		gt.rouse()
	}
}

// missed takes the mutex. It notes that the message of a process that wants the
// key may have been missed, and releases an idle key.
func (gt *gate) missed() {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	switch gr, b := gt.grant, gt.contender.bid; {
	case gr != nil && gr.idler != nil:
		gr.shorten(gt.line.length)
	case b != nil && b.claim.Lingers && !b.queued:
		b.wanted = true // its answer may be on the way
	}
	gt.rouse()
}

// idleName takes the mutex. It returns the name of the guard that took the key,
// if the key is idle.
func (gt *gate) idleName() (name string, is bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gr := gt.idle(); gr != nil {
		return gr.idler.set.Name, true
	}
	return "", false
}

// wardens release the keys of those that are due, in a row for each node, so
// that a node that hangs delays no other. If more are due than requests may be
// under way, each request is for several. A store that is asked to release
// 100,000 keys one by one leaves most of them without an answer.
type wardens struct {
	working errands // the workers

	mu   sync.Mutex            // guards rows and what is in them; only the mutex of working is locked inside
	rows map[string]*wardenRow // by node; each has a worker
}

type wardenRow struct {
	due     []*Turn
	workers int
}

// wardenWorkers is how many requests of a row are under way at a time. Many
// more would keep the requests of calls from being sent.
const wardenWorkers = 8

// add lets w, an errand, release its key.
func (ws *wardens) add(w *Turn) {
	node := w.grant.idler.node
	ws.mu.Lock()
	defer ws.mu.Unlock()
	row := ws.rows[node]
	if row == nil {
		if ws.rows == nil {
			ws.rows = make(map[string]*wardenRow)
		}
		row = &wardenRow{}
		ws.rows[node] = row
	}
	row.due = append(row.due, w)
	if row.workers < wardenWorkers {
		row.workers++
		ws.working.begin()
		go ws.work(node, row) // ends when nothing is due
	}
}

func (ws *wardens) work(node string, row *wardenRow) {
	defer ws.working.end()
	ctx := context.Background() //nolint:forbidigo // wardens have no caller
	for some := ws.take(node, row); len(some) > 0; some = ws.take(node, row) {
		for i, err := range ReleaseKeys(ctx, some) {
			some[i].NoteRelease(ctx, err)
			some[i].retire()
		}
	}
}

// take takes wardens that are due in a row and have the same TTL. If there are
// none, the caller is a worker no more.
func (ws *wardens) take(node string, row *wardenRow) (some []*Turn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for n < min(len(row.due), locker.MaxSeveral) && row.due[n].set.TTL == row.due[0].set.TTL {
		n++
	}
	some, row.due = row.due[:n:n], row.due[n:]
	if n > 0 {
		return some
	}
	if row.workers--; row.workers == 0 {
		delete(ws.rows, node)
	}
	row.due = nil
	return nil
}

// wait waits until nothing is due. If ctx ends first, the rest is left to the
// locker, and wait blocks until the requests under way have ended.
func (ws *wardens) wait(ctx context.Context) {
	if ws.working.wait(ctx) {
		return
	}
	var rest []*Turn
	ws.mu.Lock()
	for _, row := range ws.rows {
		rest, row.due = append(rest, row.due...), nil
	}
	ws.mu.Unlock()
	for _, w := range rest {
		w.Discard()
		w.retire()
	}
	ws.working.wait(context.WithoutCancel(ctx))
}

// retire is the last call of a warden.
func (t *Turn) retire() {
	t.gate.leave()
	t.errands.end()
}
