package turns

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestTheMostUrgentRenewalsAreSentFirst(t *testing.T) {
	r, now := &renewer{}, time.Now()
	class := &r.classes[8]
	class.inFlight = renewBatches // no timer is set for it
	for range 1000 {
		left := 300*time.Millisecond + rand.N(300*time.Millisecond)
		r.add(&grant{}, 166*time.Millisecond, 0, now.Add(left))
	}
	gone := class.due[500].grant
	if !r.forget(gone) || r.forget(gone) {
		t.Error("what is due is not forgotten once")
	}
	var sent []time.Time
	for len(class.due) > 0 {
		late, batch, limit := r.take(class)
		if len(late) > 0 || len(batch) > renewBatch || limit > 166*time.Millisecond {
			t.Fatalf("%d late, %d in a batch of %v", len(late), len(batch), limit)
		}
		for _, gr := range batch {
			sent = append(sent, gr.renewal.end)
		}
	}
	if len(sent) != 999 || !inOrder(sent) {
		t.Errorf("%d were sent, in order: %v", len(sent), inOrder(sent))
	}
	if slices.Reverse(sent); inOrder(sent) {
		t.Error("the least urgent first is found to be in order")
	}
}

func inOrder(ends []time.Time) bool { return slices.IsSortedFunc(ends, time.Time.Compare) }

// The first renewal of an offer makes it a lease of its full TTL. A call
// without renewal has that one.
func TestAnOfferIsRenewedSoon(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		length    time.Duration
		noRenewal bool
		renewed   bool
	}{
		"an offer":                  {3 * time.Second, false, true},
		"an offer, without renewal": {3 * time.Second, true, true},
		"an offer of its full TTL":  {10 * time.Second, true, false},
	} {
		gr := &validity{
			terms: &terms{ttl: 10 * time.Second, noRenewal: c.noRenewal},
			trust: trustFrom(now, c.length),
		}
		if gr.renewSoon(now); gr.renewAt.IsZero() == c.renewed || gr.renewAt.Sub(now) > limits.OfferRenewal {
			t.Errorf("%s: the first renewal is due at %v, want one soon: %t", name, gr.renewAt, c.renewed)
		}
	}
}

// A slow locker takes its time for a renewal.
type slow struct {
	locker.Locker

	takes time.Duration
}

func (s slow) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	select {
	case <-time.After(s.takes):
		s.Locker.Renew(ctx, cs, answered)
	case <-ctx.Done():
		for i := range cs {
			answered(i, locker.ErrUnavailable)
		}
	}
}

// A lease that was handed over is short until its second renewal. Each renewal
// has the time that one of a full lease has, so a line whose answers take a
// quarter of the offer, which is a third of the TTL, does not cost the lease.
func TestARenewalOfAnOfferHasTheTimeOfItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, s := memlocker.New(), settings()
		s.TTL = 4 * time.Second
		e, other := open(t, slow{mem, s.TTL / 12}), open(t, mem.Peer())
		held := mustTake(t, other, s)
		go func() {
			time.Sleep(time.Second)
			mustEnd(t, held)
		}()
		handed := mustTake(t, e, s)
		time.Sleep(10 * time.Second)
		mustEnd(t, handed) // it was not lost
		closed(t, e)
		closed(t, other)
	})
}

func TestATryToRenewLeavesTimeForAnotherThatIsLikelyToBeAnswered(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	for _, c := range []struct{ left, longest, likely, want time.Duration }{
		{600 * ms, time.Second, 0, 400 * ms},
		{600 * ms, time.Second, 200 * ms, 400 * ms},
		{600 * ms, time.Second, 201 * ms, 600 * ms},
		{600 * ms, time.Second, time.Second, 600 * ms},
		{600 * ms, 100 * ms, 201 * ms, 100 * ms},
		{0, time.Second, 200 * ms, ms},
	} {
		d := renewal{end: now.Add(c.left), longest: c.longest, likely: c.likely}
		if limit := d.limit(now); limit != c.want {
			t.Errorf("%v left, answers take %v: a try has %v, want %v", c.left, c.likely, limit, c.want)
		}
	}
}

// Planted: a batch takes all that is due.
func TestALeaseDoesNotTravelUnderALimitThatIsTooShortForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = 166 * time.Millisecond
		r, now := &renewer{}, time.Now()
		class := &r.classes[8]
		class.inFlight = renewBatches // no timer is set for it
		for _, left := range []int{1000, 30, 60, 2000} {
			r.add(&grant{}, longest, 0, now.Add(time.Duration(left)*time.Millisecond))
		}
		for _, want := range []time.Duration{20 * time.Millisecond, longest} {
			if _, batch, limit := r.take(class); len(batch) != 2 || limit != want {
				t.Errorf("a batch of %d has %v, want 2 and %v", len(batch), limit, want)
			}
		}
	})
}

// partly is a locker that answers no renewal but those of one key.
type partly struct {
	locker.Locker

	answered chan time.Time
}

func (p partly) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i, c := range cs {
		if c.Key == stageKey {
			p.Locker.Renew(ctx, cs[i:i+1], func(_ int, err error) { answered(i, err) })
			p.answered <- time.Now()
		}
	}
	<-ctx.Done()
	for i, c := range cs {
		if c.Key != stageKey {
			answered(i, locker.ErrUnavailable)
		}
	}
}

// Planted: a batch makes room for another only when it is answered.
func TestRenewalsThatHangDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partly{memlocker.New(), make(chan time.Time, 1)}
		e, s, all := open(t, p), settings(), []*Turn{}
		s.TTL = time.Minute
		for n := range renewBatches {
			turn, err := new(party).take(t.Context(), e, strconv.Itoa(n), s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, turn)
			time.Sleep(100 * time.Millisecond) // so that each has a batch
		}
		time.Sleep(s.TTL / 14) // more than the jitter
		all = append(all, mustTake(t, e, s))
		last := all[renewBatches].grant
		last.mu.Lock()
		due := last.renewAt
		last.mu.Unlock()
		if late := (<-p.answered).Sub(due); late > renewHangs+2*renewGather {
			t.Errorf("a renewal is sent %v late, behind %d that hang", late, renewBatches)
		}
		for _, turn := range all {
			_ = end(t.Context(), turn) // a renewal hangs
		}
		closed(t, e)
	})
}
