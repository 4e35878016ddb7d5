package turns

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// This file is a turn in an outage. A turn that is about to try may have to
// wait until the store answers somebody, or is refused at once.

// admitted reports whether t may try now. If not, it has waited, and the caller
// looks again whether the wait of t is over. It returns the error of a turn
// that is refused. While all is well it costs an atomic load.
func (t *Turn) admitted(ctx context.Context) (may bool, err error) {
	os := &t.gate.engine.outages
	if os.on.Load() == 0 {
		return true, nil
	}
	a, probe := os.admit(t.gate.name, t.longest(), t.set.Backoff)
	t.probe = probe
	switch {
	case a.refused != nil:
		return false, a.refused
	case a.silence == nil:
		return true, nil
	}
	t.gate.notAdmitted(a.fault)
	t.noteWaits(true)
	t.awaitAnswer(ctx, a)
	return false, nil
}

// awaitAnswer waits for the end of a silence, or until t must look again.
func (t *Turn) awaitAnswer(ctx context.Context, a admission) {
	defer t.gate.engine.outages.left(a.silence)
	_, _, poke := t.gate.untilDue(time.Now())
	last := t.lastMoment()
	if !t.patience.Once && (t.attempts > 0 || t.given != nil) {
		last = t.patience.Until
	}
	timer := time.NewTimer(min(a.pause, time.Until(last)))
	defer timer.Stop()
	select {
	case <-a.silence.over:
		t.sleep(ctx, rand.N(a.silence.spread+1), poke)
	case <-timer.C:
	case <-poke:
	case <-ctx.Done():
	case <-t.gate.engine.calls.closing:
	}
}

// longest is how long a silence must last until t is refused at once.
func (t *Turn) longest() time.Duration {
	return max(t.patience.Until.Sub(t.patience.Start), limits.Try(t.set.TTL))
}

// unprobe ends a probe of t, if there is one.
func (t *Turn) unprobe(inVain bool) {
	if t.probe != nil {
		t.gate.engine.outages.unprobe(t.probe, inVain, t.set.Backoff)
		t.probe = nil
	}
}

// noteTry notes what a try of t, which ended with err, has told.
func (t *Turn) noteTry(ctx context.Context, h hearing, err error) {
	n, is := t.gate.engine.outages.note(t.gate.name, h, err)
	t.unprobe(h != nothing)
	if is {
		t.events.Outage(ctx, nil, t.gate.key, n)
	}
}

// NoteRelease notes an error of ReleaseKey, and tells the events if that is
// news. ReleaseKey does not, because no panic of a logger may end the goroutine
// that it runs in.
func (t *Turn) NoteRelease(ctx context.Context, err error) {
	t.gate.engine.tell(ctx, t.events, nil, t.gate, err)
}

// TellUnguarded reports whether to log that a function runs although t has
// ended without a turn.
func (t *Turn) TellUnguarded() bool { return t.gate.engine.outages.tellUnguarded(t.gate.name) }

// endedSilent reports whether err, with which the wait of t has ended, is the
// silence of the store.
func (t *Turn) endedSilent(err error) bool {
	return errors.Is(err, locker.ErrSilent) && t.gate.engine.outages.isSilent(t.gate.name)
}
