package rowlocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// noRows are Rows that nobody asks.
type noRows struct{ Rows }

func (noRows) Traits() Traits { return Traits{Name: "test", Clock: true, Workers: 1, Batch: 128} }

// The guard goes on with a claim whose request was not sent, and gives up one
// whose request may still be carried out (law 8).
func TestACallIsUnsentUntilAWorkerHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(noRows{}, noRows{}.Traits(), "i")
		for _, taken := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if taken {
				go func() { (<-b.calls.calls)[0].Take() }()
			}
			r := b.do(ctx, request{key: "k"})
			if r.unsent == taken || !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("a worker has taken the call: %v; unsent %v, %v", taken, r.unsent, r.err)
			}
			if !taken && (<-b.calls.calls)[0].Take() {
				t.Error("a worker takes a call that was given up")
			}
		}
	})
}

// replies returns what a desk answers to requests that come at once.
func replies(t *testing.T, d *desk, qs ...request) []reply {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() { d.work(ctx, d.calls) })
	defer worker.Wait()
	defer cancel()
	all := make([]reply, len(qs))
	d.all(ctx, d.calls, qs, func(i int, r reply) { all[i] = r })
	return all
}

// reading are Rows without Blind, which tell no versions of what they write.
type reading struct{ *memRows }

func (r reading) Traits() Traits {
	t := r.memRows.Traits()
	t.Blind = false
	return t
}

func (r reading) Load(ctx context.Context, keys []string) ([]Row, error) {
	rows, err := r.memRows.Load(ctx, keys)
	for i := range rows {
		rows[i].Value = bytes.Clone(rows[i].Value)
	}
	return rows, err
}

func (r reading) Swap(ctx context.Context, cs []*Change) error {
	err := r.memRows.Swap(ctx, cs)
	for _, c := range cs {
		c.Version, c.Written = 0, 0
	}
	return err
}

// Each call reads a row then, mostly as the last one has left it.
func TestARowThatWasWrittenHereIsNotDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := reading{&memRows{w: newWorld(), clock: true}}
		d := newDesk(rows, rows.Traits(), "i")
		replies(t, d, request{verb: acquire, key: "k", owner: "a", limit: 1, ttl: ttl})
		replies(t, d, *releases("a"))
		src, err := rows.Load(t.Context(), []string{"k"})
		if err != nil {
			t.Fatal(err)
		}
		if d.memory.same(&src[0]); src[0].says == nil {
			t.Errorf("what %s says is not known", src[0].Value)
		}
		src[0].Value = []byte("b/{}")
		if d.memory.same(&src[0]); string(src[0].Value) != "b/{}" {
			t.Error("what others have written is not decoded")
		}
	})
}

// picky are Rows that refuse some rows.
type picky struct {
	*memRows
	refused error
	which   func(row Row) bool
}

func (p picky) Swap(ctx context.Context, cs []*Change) error {
	for _, c := range cs {
		if slices.ContainsFunc(c.Rows, p.which) {
			c.Err = p.refused
		} else if err := p.memRows.Swap(ctx, []*Change{c}); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatTheStoreRefusesIsNoErrorOfOthers(t *testing.T) {
	rows := picky{
		&memRows{w: newWorld()}, errors.New("refused"), func(row Row) bool { return row.Key == "bad" },
	}
	d := newDesk(rows, rows.Traits(), "i")
	bad, good := asks("a", false), asks("b", false)
	bad.key = "bad"
	_, _, err := d.together(t.Context(), []*request{good, bad}, false)
	if !errors.Is(err, rows.refused) {
		t.Errorf("together: %v, want the refusal", err)
	}
	got := replies(t, d, *bad, *good)
	if !errors.Is(got[0].err, rows.refused) || got[1].err != nil || !got[1].ok {
		t.Errorf("%+v, want the first refused and the second to own its key", got)
	}
}

func TestCheckTellsThatItsRowCannotBeDeleted(t *testing.T) {
	rows := picky{
		&memRows{w: newWorld(), clock: true}, errors.New("refused"), func(row Row) bool { return row.Version == Any },
	}
	l := New(rows)
	if err := l.Open(nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(t.Context(), time.Minute); !errors.Is(err, rows.refused) {
		t.Errorf("%v, want the refusal", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// beating counts the beats.
type beating struct {
	memPulse
	beats *int
}

func (b beating) Beat(ctx context.Context, instance string) error {
	*b.beats++
	return b.memPulse.Beat(ctx, instance)
}

func TestALookKeepsThePulse(t *testing.T) {
	w := newWorld()
	rows := beating{memPulse{memEars{&memRows{w: w}}}, new(int)}
	d := newDesk(rows, rows.Traits(), "i")
	for i, q := range []*request{asks("a", true), asks("b", true), asks("b", true)} {
		q.try.Queued, q.inst = i == 2, "i"
		if r := replies(t, d, *q)[0]; r.err != nil || r.queued != (i > 0) || *rows.beats != i {
			t.Errorf("request %d: %+v, %d beats", i, r, *rows.beats)
		}
	}
}

// mute are Rows that never answer, and say so.
type mute struct{ *memRows }

func (mute) Load(ctx context.Context, _ []string) ([]Row, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mute) Unanswered(_ time.Time, err error) error { return errors.Join(locker.ErrSilent, err) }

func TestTheStoreExplainsThatNoAnswerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(mute{&memRows{}}, noRows{}.Traits(), "i")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go d.work(ctx, d.calls)
		impatient, stop := context.WithTimeout(ctx, time.Millisecond)
		defer stop()
		q := asks("a", false)
		q.try.Held = true
		if r := d.do(impatient, *q); !errors.Is(r.err, locker.ErrSilent) || r.unsent {
			t.Errorf("%+v, want what the store says", r)
		}
	})
}

// unread are Rows of which no read is answered.
type unread struct {
	*memRows
	err error
}

func (u unread) Load(context.Context, []string) ([]Row, error) { return nil, u.err }

// The guard takes no silence for one if the try was not sent. Nothing is
// written behind a read that was asked in vain, but the store was asked.
func TestAReadWithoutAnAnswerIsSilence(t *testing.T) {
	silence := fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent)
	for err, want := range map[error]bool{silence: true, locker.ErrUnavailable: false} {
		rows := unread{&memRows{w: newWorld(), clock: true}, err} // whose time is not known yet
		d := newDesk(rows, rows.Traits(), "i")
		q := asks("a", true)
		r := replies(t, d, *q)[0]
		if !errors.Is(r.err, err) || errors.Is(r.err, locker.ErrUnsent) == want || r.unsent == want {
			t.Errorf("an acquire: %v, unsent %v", r.err, r.unsent)
		}
		_, _, err := d.together(t.Context(), []*request{q}, false)
		if errors.Is(err, locker.ErrUnsent) == want {
			t.Errorf("several keys: %v", err)
		}
	}
}

func TestLooksOfAProcessTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		b.costs("40 looks that find their keys free", 2*3, func() {
			var looks sync.WaitGroup
			for i := range 40 {
				looks.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					q := asks("a", true)
					q.key, q.try.Queued = strconv.Itoa(i), true
					if r := b.ls[0].desk.do(t.Context(), *q); r.err != nil {
						t.Error(r.err)
					}
				})
			}
			looks.Wait()
		})
	})
}

// silent are Rows that never answer.
type silent struct{ mute }

func (silent) Swap(ctx context.Context, _ []*Change) error {
	<-ctx.Done()
	return ctx.Err()
}

func (silent) Scan(ctx context.Context, _ string, _ int) ([]Row, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Planted: Inspect and List pass on the ctx of their caller as it is.
func TestACallWithoutADeadlineEndsThoughTheStoreIsSilent(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *Locker, c *locker.Claim) error{
		"Acquire": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			_, err := l.Acquire(ctx, c, locker.Try{Wait: true})
			return err
		},
		"AcquireAll": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			_, _, err := l.AcquireAll(ctx, []*locker.Claim{c}, false)
			return err
		},
		"Release": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			_, err := l.Release(ctx, c, locker.End{})
			return err
		},
		"Forget": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			_, err := l.Forget(ctx, c.Key)
			return err
		},
		"Inspect": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			_, err := l.Inspect(ctx, c.Key)
			return err
		},
		"List": func(ctx context.Context, l *Locker, _ *locker.Claim) (err error) {
			for _, e := range l.List(ctx) {
				err = errors.Join(err, e)
			}
			return err
		},
		"ForceRelease": func(ctx context.Context, l *Locker, c *locker.Claim) error {
			return l.ForceRelease(ctx, c.Key, c.Owner)
		},
		"Check": func(ctx context.Context, l *Locker, c *locker.Claim) error { return l.Check(ctx, c.TTL) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ls, _ := peers(t, 1, func(m *memRows) *Locker { return New(silent{mute{m}}) })
				ended := make(chan error, 1)
				go func() { ended <- call(t.Context(), ls[0], wants('a', 1)) }() // ends with its own limit, or with t
				select {
				case err := <-ended:
					if err == nil {
						t.Error("no error")
					}
				case <-time.After(time.Minute):
					t.Error("not ended after a minute")
				}
			})
		})
	}
}

// The value of a long record may end before the row says so. The record has
// ended then, and the next call runs.
func TestARecordEndsWithItsValue(t *testing.T) {
	for _, clock := range []bool{false, true} {
		w := newWorld()
		rows := &memRows{w: w, clock: clock}
		d := newDesk(rows, rows.Traits(), "i")
		long := keeps("a")
		long.value = bytes.Repeat([]byte("r"), inlineMax+1)
		for _, r := range replies(t, d, *recalls("a", false), *long) {
			if r.err != nil || !r.ok {
				t.Fatalf("%+v, want success", r)
			}
		}
		found := replies(t, d, *recalls("b", false))[0]
		if found.err != nil || found.ok || !bytes.Equal(found.record, long.value) {
			t.Fatalf("%+v, want the record", found)
		}
		delete(w.rows, "k"+recordSuffix)
		if r := replies(t, d, *recalls("b", false))[0]; r.err != nil || !r.ok {
			t.Errorf("clock %v: without the value %+v, want the key", clock, r)
		}
	}
}

// stubborn are Rows whose first Swaps are refused by something that no read
// shows.
type stubborn struct {
	*memRows
	swaps *atomic.Int64
}

const stubbornSwaps = 4

func (s stubborn) Swap(ctx context.Context, cs []*Change) error {
	time.Sleep(20 * time.Millisecond)
	if s.swaps.Add(1)%(stubbornSwaps+1) == 0 {
		return s.memRows.Swap(ctx, cs)
	}
	for _, c := range cs {
		for _, r := range c.Rows {
			c.Current = append(c.Current, s.get(r.Key))
		}
	}
	return nil
}

// A write that comes to nothing refuses others, and leaves no trace.
func TestAChangeThatNothingRefusesAnyMoreIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := stubborn{&memRows{w: newWorld()}, &atomic.Int64{}}
		d := newDesk(rows, rows.Traits(), "i")
		for _, q := range []*request{asks("a", false), releases("a")} {
			began := time.Now()
			if r := replies(t, d, *q)[0]; r.err != nil || !r.ok {
				t.Errorf("verb %v: %+v", q.verb, r)
			}
			if took := time.Since(began); took <= (stubbornSwaps+1)*20*time.Millisecond {
				t.Errorf("verb %v took %v: it was sent again at once", q.verb, took)
			}
		}
		if n := rows.swaps.Load(); n != 2*(stubbornSwaps+1) {
			t.Errorf("%d swaps, want each change sent until it is done", n)
		}
	})
}

// contested are Rows of which others write each row before this process does.
type contested struct {
	*memRows
	on *atomic.Bool
}

func (c contested) Swap(ctx context.Context, cs []*Change) error {
	time.Sleep(20 * time.Millisecond)
	if c.on.Load() {
		c.w.mu.Lock()
		for k, r := range c.w.rows {
			c.w.version++
			r.Version = c.w.version
			c.w.rows[k] = r
		}
		c.w.mu.Unlock()
	}
	return c.memRows.Swap(ctx, cs)
}

func TestAReleaseDoesNotWaitForAnAcquireThatHasSteppedBack(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			rows := contested{&memRows{w: newWorld()}, &atomic.Bool{}}
			d := newDesk(rows, rows.Traits(), "i")
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			for range 2 {
				all.Go(func() { d.work(ctx, d.calls) })
			}
			if r := d.do(ctx, *asks("a", false)); r.err != nil || !r.ok {
				t.Fatalf("%+v", r)
			}
			rows.on.Store(true)
			all.Go(func() {
				if r := d.do(ctx, *asks("b", true)); r.err != nil || !r.ok && !r.queued {
					t.Errorf("the acquire: %+v", r)
				}
			})
			time.Sleep(2 * time.Second)
			rows.on.Store(false)
			began := time.Now()
			if r := d.do(ctx, *releases("a")); r.err != nil || !r.ok {
				t.Errorf("the release: %+v", r)
			}
			if took := time.Since(began); took > 50*time.Millisecond { // a swap, behind one that is under way
				t.Errorf("the release took %v", took)
			}
		})
	}
}

func TestATaskThatStepsBackComesAgainSoonThoughTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for tries := 2; tries < 100; tries++ {
			x := &task{tries: tries}
			x.stepBack(time.Second, false)
			if pause := time.Until(x.after); x.after.IsZero() || pause > againMost {
				t.Fatalf("after %d tries it comes again in %v", tries, pause)
			}
		}
	})
}
