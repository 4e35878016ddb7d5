package turns

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/timelimit"
	"github.com/go-lockguard/guard/locker"
)

// outages are the outages of a locker, one for each domain. A domain is what
// fails together: a node of a cluster, or else the whole locker.
//
// While all is well, a call pays a few atomic loads and locks nothing. There is
// no goroutine: the calls that want keys also find out whether the store is
// back.
type outages struct {
	node func(key string) string // the domain of a key, as the locker knows it; called without mu
	on   atomic.Int32            // how many domains have an outage; changed under mu
	// untold is how many have outages that ended before their log line; changed
	// under mu.
	untold atomic.Int32

	// mu guards what follows, with the outages and silences inside. A
	// method holds mu for a few instructions, and nothing is locked under
	// it.
	mu sync.Mutex
	by map[string]*outage // by domain; one that has ended stays for the pause of its log
}

// An outage is the time from the first missing answer of a domain to the next
// clear one. A refusal is no clear answer here, because it is worth a log line.
type outage struct {
	on     bool
	since  time.Time // when it began
	last   time.Time // the last missing answer
	over   time.Time // a clear answer of which there was no news, since last; zero: none
	logged time.Time // when this outage, or the last one before it, was logged
	told   bool      // it was logged
	fault  error     // of the last missing answer

	// Outages that ended before they could be logged: how many there were since
	// the last line, and how long they lasted in all. The next line tells.
	untold int
	missed time.Duration

	silence   *silence  // nil: the store answers, if only with refusals
	unguarded time.Time // when it was last logged that functions run unguarded
}

// outagePause keeps a store that answers now and then from filling the log.
const outagePause = 10 * time.Second

// A silence is the time in which a domain gives no answer at all. The silence
// begins when it is noticed, not when the first request was sent: a process
// that was paused must not wake up in an old silence.
type silence struct {
	since   time.Time
	last    time.Time // the last try without an answer
	fault   error     // of that try
	next    time.Time // no probe is sent before
	probes  int       // sent in vain
	probing bool      // one is under way
	waiting int       // turns that wait for its end or for their probe

	over   chan struct{} // closed by the first clear answer
	spread time.Duration // over which those that waited try again; set before over is closed
}

const (
	// evidenceLife is how long a try without an answer says something about the
	// store. Without calls there are no probes, and nobody knows.
	evidenceLife = time.Second
	// probeLife is added while a probe is under way. No try has longer.
	probeLife = 500 * time.Millisecond

	// maxSpread and spreadEach bound the time over which those that waited try
	// again. If they all did so at once, the last of them would run into their
	// limits, and that would be the next outage.
	maxSpread  = 100 * time.Millisecond
	spreadEach = 10 * time.Microsecond

	// lookAgainEach is the time between two turns that look whether a probe is
	// due, if many wait.
	lookAgainEach = time.Millisecond
)

// A hearing is what a request has told about the store.
type hearing int

const (
	nothing hearing = iota // cut short, or the locker was closed
	clearly                // a clear answer
	refusal                // an answer, but not the one that was wanted
	trouble                // no clear answer: the store passes through a bad state, or nothing was sent
	silent                 // no answer to a try, which took its full limit, or nobody listens
)

// heard sorts the result of a request.
func heard(err error) hearing {
	switch {
	case err == nil, errors.Is(err, locker.ErrLeaseLost):
		return clearly
	case errors.Is(err, locker.ErrClosed):
		return nothing
	case errors.Is(err, locker.ErrUnavailable):
		return trouble
	}
	return refusal
}

// heardByTry is heard for a try that took so long. full says that its limit was
// not cut short.
func heardByTry(err error, took, limit time.Duration, full bool) hearing {
	h := heard(err)
	switch {
	case h == trouble && !full:
		return nothing
	case h == trouble && errors.Is(err, locker.ErrSilent) && !errors.Is(err, locker.ErrUnsent) &&
		tookItsTime(err, took, limit):
		return silent
	}
	return h
}

// tookItsTime reports whether the silence that a try met is the store's. A
// process that was stopped, or had no processor, may have missed the answer,
// and its try took longer than it may. A timeout in less time is not that of
// the try.
func tookItsTime(err error, took, limit time.Duration) bool {
	return took < limit+awake && (!lockerkit.TimedOut(err) || took >= limit-timelimit.Short)
}

// awake is how late a process that runs may notice the end of a try.
const awake = 100 * time.Millisecond

// note notes what a request for key has told. n says what is new by that.
func (os *outages) note(key string, h hearing, err error) (n News, is bool) {
	if h == nothing || h == clearly && os.on.Load() == 0 && os.untold.Load() == 0 {
		return News{}, false
	}
	now, domain := time.Now(), os.node(key)
	os.mu.Lock()
	defer os.mu.Unlock()
	o := os.by[domain]
	if h == clearly {
		if o == nil || !o.on && o.untold == 0 {
			o = os.stale(now)
		}
		return os.end(o, now)
	}
	if o == nil {
		o = &outage{}
		if os.by == nil {
			os.by = make(map[string]*outage)
		}
		os.by[domain] = o
	}
	return os.missed(o, h, err, now)
}

// answered notes a clear answer without the news of it, because a release tells
// nobody. The next request tells, and says that the outage has lasted until
// now.
func (os *outages) answered(key string) {
	if os.on.Load() == 0 {
		return
	}
	domain := os.node(key)
	os.mu.Lock()
	defer os.mu.Unlock()
	if o := os.by[domain]; o != nil {
		o.broken()
		if o.over.IsZero() {
			o.over = time.Now()
		}
	}
}

// together reports whether keys are of one domain.
func (os *outages) together(keys []*locker.Claim) bool {
	domain := os.node(keys[0].Key)
	return !slices.ContainsFunc(keys, func(c *locker.Claim) bool { return os.node(c.Key) != domain })
}

// missed notes an answer that is missing, or is a refusal. os.mu is held.
func (os *outages) missed(o *outage, h hearing, err error, now time.Time) (n News, is bool) {
	if !o.on {
		o.on, o.since, o.told = true, now, false
		os.on.Add(1)
	}
	o.last, o.over, o.fault = now, time.Time{}, err
	switch {
	case h == refusal:
		o.broken()
	case h == silent && o.silence == nil, h == silent && !o.silence.fresh(now):
		o.broken()
		o.silence = &silence{since: now, last: now, next: now, fault: err, over: make(chan struct{})}
	case h == silent:
		o.silence.last, o.silence.fault = now, err
	}
	if o.told || o.pauses(now) {
		return News{}, false
	}
	o.told = true
	unlogged, _ := os.tell(o, now)
	return News{Err: err, Unlogged: unlogged}, true
}

// end notes a clear answer. os.mu is held.
func (os *outages) end(o *outage, now time.Time) (n News, is bool) {
	if o == nil {
		return News{}, false
	}
	if o.on {
		o.on = false
		os.on.Add(-1)
		o.broken()
		lasted := now.Sub(o.since)
		if !o.over.IsZero() {
			lasted = o.over.Sub(o.since)
		}
		if o.told {
			return News{Over: true, Lasted: lasted}, true
		}
		if o.untold++; o.untold == 1 {
			os.untold.Add(1)
		}
		o.missed += lasted
	}
	if o.untold == 0 || o.pauses(now) {
		return News{}, false
	}
	unlogged, missed := os.tell(o, now)
	return News{Over: true, Err: o.fault, Lasted: missed, Unlogged: unlogged}, true
}

// pauses reports whether it is too early for the line of another outage.
func (o *outage) pauses(now time.Time) bool {
	return !o.logged.IsZero() && now.Sub(o.logged) < outagePause
}

// tell notes that a line is logged now. tell returns how many outages had none
// before, and how long they lasted. os.mu is held.
func (os *outages) tell(o *outage, now time.Time) (unlogged int, missed time.Duration) {
	o.logged = now
	unlogged, missed, o.untold, o.missed = o.untold, o.missed, 0, 0
	if unlogged > 0 {
		os.untold.Add(-1)
	}
	return unlogged, missed
}

// stale returns an outage of which nothing has been heard for outagePause, and
// that goes on or is still to be told, or nil. Its node is not asked any more,
// as after a failover. stale forgets those that ended long ago. os.mu is held.
func (os *outages) stale(now time.Time) (found *outage) {
	for domain, o := range os.by {
		switch {
		case now.Sub(o.last) < outagePause:
		case o.on, o.untold > 0:
			found = o
		default:
			delete(os.by, domain)
		}
	}
	return found
}

// broken ends the silence, if there is one. The outages' mutex is held.
func (o *outage) broken() {
	if s := o.silence; s != nil {
		o.silence = nil
		s.spread = min(maxSpread, time.Duration(s.waiting)*spreadEach)
		close(s.over)
	}
}

// fresh reports whether there is evidence of the silence now.
func (s *silence) fresh(now time.Time) bool {
	life := evidenceLife
	if s.probing {
		life += probeLife
	}
	return now.Sub(s.last) < life
}

// of returns the silence of a domain, or nil. A silence without evidence is
// forgotten. os.mu is held.
func (os *outages) of(domain string, now time.Time) *silence {
	o := os.by[domain]
	if o == nil || o.silence == nil {
		return nil
	}
	if !o.silence.fresh(now) {
		o.broken()
	}
	return o.silence
}

// error returns the error of a call that is not sent.
func (s *silence) error(now time.Time) error {
	return fmt.Errorf("%w (no answer for %v)", s.fault, now.Sub(s.since).Round(time.Millisecond))
}

// isSilent reports whether key's domain gives no answer now.
func (os *outages) isSilent(key string) bool { return os.refuses(key, -1) != nil }

// tellUnguarded reports whether to log that functions run unguarded.
// tellUnguarded does so once for each outage.
func (os *outages) tellUnguarded(key string) bool {
	now, domain := time.Now(), os.node(key)
	os.mu.Lock()
	defer os.mu.Unlock()
	o := os.by[domain]
	if o == nil || o.unguarded.After(o.since) || now.Sub(o.unguarded) < outagePause {
		return false
	}
	o.unguarded = now
	return true
}

// An admission says what a turn that is about to try must do in a silence. The
// zero admission lets it try.
type admission struct {
	refused error         // set: the silence has lasted too long to wait for its end
	silence *silence      // set: wait for its end
	fault   error         // of that silence, if the wait ends first
	pause   time.Duration // ask again after that
}

// admit decides about the next try of a turn on key that has the given
// patience. If the try is a probe, probe is its silence; unprobe must follow.
func (os *outages) admit(key string, patience time.Duration, b Backoff) (a admission, probe *silence) {
	now, domain := time.Now(), os.node(key)
	os.mu.Lock()
	defer os.mu.Unlock()
	s := os.of(domain, now)
	if s == nil {
		return admission{}, nil
	}
	known := s.since.Add(patience)
	pause := s.next.Sub(now)
	switch {
	case !s.probing && pause <= 0:
		s.probing = true
		return admission{}, s
	case now.After(known):
		return admission{refused: s.error(now)}, nil
	case s.probing:
		pause = b.Max / 4
	}
	s.waiting++
	pause += limits.Jitter(time.Duration(s.waiting) * lookAgainEach)
	return admission{silence: s, fault: s.error(now), pause: min(pause, known.Sub(now)+1)}, nil
}

// refuses returns the error of a call that would only stand behind one that
// waits for the end of a silence, or nil.
func (os *outages) refuses(key string, patience time.Duration) error {
	if os.on.Load() == 0 {
		return nil
	}
	now, domain := time.Now(), os.node(key)
	os.mu.Lock()
	defer os.mu.Unlock()
	if s := os.of(domain, now); s != nil && now.Sub(s.since) > patience {
		return s.error(now)
	}
	return nil
}

// unprobe ends a probe. inVain says that the store had its time and gave no
// clear answer. After a probe that its caller left the next may begin at once.
func (os *outages) unprobe(s *silence, inVain bool, b Backoff) {
	os.mu.Lock()
	defer os.mu.Unlock()
	s.probing = false
	if inVain {
		s.next = time.Now().Add(b.Pause(s.probes))
		s.probes++
	}
}

// probeSoon makes a probe of each silence due, because something of the store
// is back.
func (os *outages) probeSoon() {
	if os.on.Load() == 0 {
		return
	}
	now := time.Now()
	os.mu.Lock()
	defer os.mu.Unlock()
	for _, o := range os.by {
		if o.silence != nil {
			o.silence.next = now
		}
	}
}

// left notes that a turn does not wait for the end of s any more.
func (os *outages) left(s *silence) {
	os.mu.Lock()
	defer os.mu.Unlock()
	s.waiting--
}

// usable returns err as an error of package locker. refused reports that the
// store has said something of its own. A holder's claim is in as much doubt
// then as without an answer.
func usable(err error) (refused bool, _ error) {
	if err == nil || errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrClosed) {
		return false, err
	}
	return true, fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// moreTelling returns the later of two faults, unless the store has said
// something by the earlier one only. The last tries of a wait or a lease are
// cut short, and what the store said before tells more.
func moreTelling(fault, later error) error {
	if fault != nil && !wordless(fault) && wordless(later) {
		return fault
	}
	return later
}

// wordless reports whether err has nothing that the store has said.
func wordless(err error) bool {
	return lockerkit.TimedOut(err) || errors.Is(err, locker.ErrSilent) || errors.Is(err, locker.ErrUnsent)
}
