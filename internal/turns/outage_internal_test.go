package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A patchy locker has nodes, which fail in their own ways. The node of a key is
// what stands before its first colon.
type patchy struct {
	locker.Locker

	mu    sync.Mutex // guards the fields below
	fails map[string]failure
	asked map[string][]time.Time // when each node got a try
}

// A failure answers a try.
type failure func(ctx context.Context) error

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.ErrSilent, ctx.Err())
}

// answersAll returns a failure that says err at once.
func answersAll(errs ...error) failure {
	return func(context.Context) error { return errors.Join(errs...) }
}

var gone = answersAll(locker.ErrUnavailable, locker.ErrSilent)

func (p *patchy) Node(key string) string {
	node, _, _ := strings.Cut(key, ":")
	return node
}

// fail makes a node fail. nil mends it.
func (p *patchy) fail(node string, f failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails[node] = f
}

// tries returns when the node was asked since the last call of tries.
func (p *patchy) tries(node string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	tries := p.asked[node]
	p.asked[node] = nil
	return tries
}

func (p *patchy) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	node := p.Node(c.Key)
	p.mu.Lock()
	p.asked[node] = append(p.asked[node], time.Now())
	f := p.fails[node]
	p.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return locker.Answer{}, err
		}
	}
	return p.Locker.Acquire(ctx, c, t)
}

// inOutages runs a test in virtual time, with an engine on a patchy locker.
func inOutages(t *testing.T, test func(t *testing.T, e *Engine, p *patchy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &patchy{Locker: memlocker.New(), fails: make(map[string]failure), asked: make(map[string][]time.Time)}
		e := open(t, p)
		test(t, e, p)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A result is how a call ended that wanted a turn and gave it back at once.
type result struct {
	err    error
	took   time.Duration
	silent bool
}

func ask(ctx context.Context, e *Engine, key string, s Settings) result {
	start, turn := time.Now(), &Turn{}
	_, err := turn.Take(ctx, e, key, &s, &party{}, Patience{
		Start: start, Until: start.Add(s.MaxWait), Once: s.MaxWait == 0,
	})
	if err == nil {
		_ = turn.Attach(&party{}, time.Now())
		_ = end(ctx, turn)
	}
	return result{err, time.Since(start), turn.Silent(err)}
}

// callers makes n calls side by side on keys of their own on a node.
func callers(t *testing.T, e *Engine, node string, n int, s Settings) (wait func() []result) {
	t.Helper()
	results := make([]result, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i] = ask(t.Context(), e, node+":"+strconv.Itoa(i), s) })
	}
	return func() []result { wg.Wait(); return results }
}

// keepAsking makes a call each 10 ms, so that there is evidence, until stop.
func keepAsking(t *testing.T, e *Engine, node string, s Settings) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			wg.Go(func() { ask(ctx, e, node+":asks"+strconv.Itoa(n), s) })
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

func TestAKnownOutageRefusesAtOnceAndAsksLittle(t *testing.T) {
	for name, f := range map[string]failure{"a server that hangs": hangs, "a server that is gone": gone} {
		t.Run(name, func(t *testing.T) {
			inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
				t.Helper()
				p.fail("a", f)
				stop := keepAsking(t, e, "a", settings())
				defer stop()
				time.Sleep(4 * time.Second) // MaxWait, and the first try
				p.tries("a")
				probes, at := 0, 0
				for range 1000 {
					r := ask(t.Context(), e, "a:"+name, settings())
					if !errors.Is(r.err, locker.ErrUnavailable) || !errors.Is(r.err, locker.ErrSilent) || !r.silent {
						t.Fatalf("got %+v", r)
					}
					if at++; r.took > 0 {
						probes++
					}
					time.Sleep(10 * time.Millisecond)
				}
				tries := p.tries("a")
				if probes > 200 || len(tries) < 10 || len(tries) > 20*20 {
					t.Errorf("%d calls of %d were not refused at once, %d tries in 10 s", probes, at, len(tries))
				}
				for i, at := range tries[1:] {
					if f := at.Sub(tries[i]); f > evidenceLife {
						t.Errorf("nobody asked for %v", f)
					}
				}
			})
		})
	}
}

func TestThoseWhoWaitInAnOutageAreRefusedTogetherAndSendNothing(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		first := callers(t, e, "a", 50, settings())
		time.Sleep(600 * time.Millisecond) // noticed after 500
		p.tries("a")
		second := callers(t, e, "a", 1000, settings())
		for _, r := range slices.Concat(first(), second()) {
			late := r.took > settings().MaxWait+600*time.Millisecond
			if !errors.Is(r.err, locker.ErrUnavailable) || !r.silent || late {
				t.Fatalf("got %+v", r)
			}
		}
		if n := len(p.tries("a")); n > 20 {
			t.Errorf("%d tries in 3 s of 1,050 calls that wait", n)
		}
	})
}

func TestThoseWhoWaitedComeBackSpreadAndAreServed(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", gone)
		calls := testsize.Pick(5000, 1000)
		all := callers(t, e, "a", calls, settings())
		time.Sleep(time.Second)
		p.tries("a")
		p.fail("a", nil)
		mended := time.Now()
		for _, r := range all() {
			if r.err != nil {
				t.Fatal(r.err)
			}
		}
		tries := p.tries("a")
		first, last := tries[0].Sub(mended), tries[len(tries)-1].Sub(mended)
		if first > 260*time.Millisecond || last > 500*time.Millisecond {
			t.Errorf("they came %v to %v after the end", first, last)
		}
		slices.SortFunc(tries, time.Time.Compare)
		if spread := tries[len(tries)*9/10].Sub(tries[len(tries)/10]); spread < spreadEach*time.Duration(calls)/5 {
			t.Errorf("%d calls came within %v", calls, spread)
		}
	})
}

// Only no answer is silence.
func TestAnAnswerOfAnyKindIsNoSilence(t *testing.T) {
	for name, f := range map[string]failure{
		"a refusal":            answersAll(errors.New("WRONGTYPE")),
		"a state that passes":  answersAll(locker.ErrUnavailable, errors.New("LOADING")),
		"a full queue in here": answersAll(locker.ErrUnavailable, locker.ErrUnsent),
		"a timeout in a queue": answersAll(locker.ErrUnavailable, locker.ErrUnsent, locker.ErrSilent),
		"a locker that closes": answersAll(locker.ErrClosed),
	} {
		t.Run(name, func(t *testing.T) {
			inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
				t.Helper()
				p.fail("a", f)
				stop := keepAsking(t, e, "a", settings())
				defer stop()
				time.Sleep(testsize.Pick(10*time.Second, 4*time.Second))
				if r := ask(t.Context(), e, "a:1", settings()); r.silent {
					t.Errorf("the end was %+v", r)
				}
				p.fail("a", nil)
				if r := ask(t.Context(), e, "a:2", settings()); r.err != nil || r.took != 0 {
					t.Errorf("after it: %+v", r)
				}
			})
		})
	}
}

// A refusal of the server ends a silence: it is there.
func TestARefusalEndsASilence(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		defer stop()
		time.Sleep(5 * time.Second)
		p.fail("a", answersAll(errors.New("NOPERM")))
		time.Sleep(time.Second)
		if r := ask(t.Context(), e, "a:1", settings()); r.silent || !strings.Contains(r.err.Error(), "NOPERM") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestATryThatWasCutShortIsNoSilence(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		for range 100 { // for 4 s
			ctx, leave := context.WithTimeout(t.Context(), 40*time.Millisecond)
			if r := ask(ctx, e, "a:1", settings()); r.silent || !errors.Is(r.err, ErrEnded) {
				t.Fatalf("got %+v", r)
			}
			leave()
		}
		p.fail("a", nil)
		if r := ask(t.Context(), e, "a:2", settings()); r.err != nil || r.took != 0 {
			t.Errorf("after it: %+v", r)
		}
	})
}

// Under overload some are answered and others are not.
func TestOverloadNeverBecomesAKnownOutage(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		under := make(chan struct{}, 5) // what it can do at a time
		p.fail("a", func(ctx context.Context) error {
			select {
			case under <- struct{}{}:
				time.Sleep(100 * time.Millisecond)
				<-under
				return nil
			case <-ctx.Done():
				return hangs(ctx)
			}
		})
		stop := keepAsking(t, e, "a", settings())
		defer stop()
		for range testsize.Pick(30, 10) {
			time.Sleep(100 * time.Millisecond)
			if r := ask(t.Context(), e, "a:1", settings()); r.err != nil && r.took < 3*time.Second {
				t.Fatalf("refused early: %+v", r)
			}
		}
	})
}

func TestAnOutageOfOneNodeIsNoneOfTheOthers(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		time.Sleep(5 * time.Second)
		for i := range 200 {
			if r := ask(t.Context(), e, "b:"+strconv.Itoa(i), settings()); r.err != nil || r.took != 0 {
				t.Fatalf("on the other node: %+v", r)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if r := ask(t.Context(), e, "a:1", settings()); !r.silent {
			t.Errorf("on the node that is down: %+v", r)
		}
		stop()
		// Nobody asks the node any more, as after a failover. Its outage ends.
		time.Sleep(outagePause + time.Second)
		if r := ask(t.Context(), e, "b:1", settings()); r.err != nil {
			t.Error(r.err)
		}
		if n := e.outages.on.Load(); n != 0 {
			t.Errorf("%d outages are on", n)
		}
	})
}

// It begins when it is noticed. A process that was paused must not wake up in
// an old outage.
func TestAnOutageIsAsOldAsItsFirstNotice(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", func(context.Context) error { // the process is paused while its tries are under way
			time.Sleep(time.Minute)
			return errors.Join(locker.ErrUnavailable, locker.ErrSilent)
		})
		all := callers(t, e, "a", 20, settings())
		time.Sleep(30 * time.Second)
		p.fail("a", nil)
		time.Sleep(30*time.Second + time.Millisecond)
		if r := ask(t.Context(), e, "a:1000", settings()); r.err != nil {
			t.Errorf("after the pause: %+v", r)
		}
		all()
	})
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		// It is paused in an outage, with a probe under way.
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		time.Sleep(5 * time.Second)
		stop()
		p.fail("a", func(context.Context) error {
			t.Helper()
			time.Sleep(time.Minute)
			return errors.Join(locker.ErrUnavailable, locker.ErrSilent)
		})
		probe := callers(t, e, "a", 1, settings())
		time.Sleep(50 * time.Second)
		p.fail("a", nil)
		if r := ask(t.Context(), e, "a:1000", settings()); r.err != nil {
			t.Errorf("while the old probe hangs: %+v", r)
		}
		probe()
		if r := ask(t.Context(), e, "a:1001", settings()); r.err != nil {
			t.Errorf("after it: %+v", r)
		}
	})
}

func TestOldEvidenceIsNone(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		time.Sleep(5 * time.Second)
		stop()
		time.Sleep(2 * time.Second) // nobody asks
		both := callers(t, e, "a", 2, settings())
		time.Sleep(100 * time.Millisecond)
		p.fail("a", nil) // the tries under way stay without an answer
		for _, r := range both() {
			if r.err != nil {
				t.Errorf("refused for what was: %+v", r)
			}
		}
	})
}

func TestAProbeWhoseCallerLeavesIsLeftToTheNext(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		defer stop()
		time.Sleep(5 * time.Second)
		for range 40 { // in 4 s: one of them is the probe nearly always
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Millisecond, leave)
			ask(ctx, e, "a:leaves", settings())
			time.Sleep(95 * time.Millisecond)
		}
		p.tries("a")
		time.Sleep(4 * time.Second)
		if n := len(p.tries("a")); n < 4 {
			t.Errorf("%d probes in 4 s", n)
		}
		p.fail("a", nil)
		time.Sleep(time.Second)
		if r := ask(t.Context(), e, "a:1", settings()); r.err != nil || r.took != 0 {
			t.Errorf("after the outage: %+v", r)
		}
	})
}

// A locker that panics in a probe gives the role back, too.
func TestAProbeThatPanicsIsLeftToTheNext(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", gone)
		if r := ask(t.Context(), e, "a:1", settings()); !r.silent {
			t.Fatalf("got %+v", r)
		}
		p.fail("a", func(context.Context) error { panic("the locker") })
		time.Sleep(300 * time.Millisecond) // a probe is due
		func() {
			defer func() { _ = recover() }()
			ask(t.Context(), e, "a:2", settings())
		}()
		p.fail("a", nil)
		if r := ask(t.Context(), e, "a:3", settings()); r.err != nil {
			t.Errorf("after the panic: %+v", r)
		}
	})
}

// Callers with one attempt do not fail on every blip.
func TestAnAttemptIsNotRefusedBeforeItsTryLimit(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		once := settings()
		once.MaxWait = 0
		p.fail("a", gone)
		if r := ask(t.Context(), e, "a:1", settings()); !r.silent { // evidence
			t.Fatalf("got %+v", r)
		}
		time.Sleep(2 * time.Second) // forgotten
		first := callers(t, e, "a", 1, once)
		if r := first()[0]; !r.silent || r.took != 0 {
			t.Errorf("the first attempt: %+v", r)
		}
		p.fail("a", nil)
		if r := ask(t.Context(), e, "a:2", once); r.err != nil {
			t.Errorf("an attempt in a silence of 0 s: %+v", r)
		}
		p.fail("a", gone)
		begin := time.Now()
		var early, late int
		for time.Since(begin) < 5*time.Second {
			r := ask(t.Context(), e, "a:3", once)
			if r.took > limits.Try(once.TTL)+limits.TryGrace {
				t.Errorf("it took %v", r.took)
			}
			if r.took == 0 && time.Since(begin) > time.Second {
				late++
			} else {
				early++
			}
			time.Sleep(5 * time.Millisecond)
		}
		if late < 400 {
			t.Errorf("%d attempts of %d were refused at once", late, late+early)
		}
	})
}

func TestTurnsGoOnInThisProcessWhileTheStoreIsSilent(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		s := settings()
		holder, err := new(party).take(t.Context(), e, "a:k", s)
		if err != nil {
			t.Fatal(err)
		}
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", s)
		defer stop()
		time.Sleep(50 * time.Millisecond)
		s.MaxWait = time.Minute // of the calls that stand in line
		next := make(chan result)
		go func() { next <- ask(t.Context(), e, "a:k", s) }()
		time.Sleep(40 * time.Millisecond)
		// The grant has a tenure of 100 ms, so the next turn comes before.
		if err := end(t.Context(), holder); err != nil {
			t.Error(err)
		}
		if r := <-next; r.err != nil || r.took > 100*time.Millisecond {
			t.Errorf("the next in line: %+v", r)
		}
	})
}

func TestNobodyStandsBehindACallThatMayNotEvenTry(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		p.fail("a", hangs)
		stop := keepAsking(t, e, "a", settings())
		defer stop()
		patient := settings()
		patient.MaxWait = time.Hour // as of Lead
		ctx, leave := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { ask(ctx, e, "a:hot", patient); close(over) }()
		time.Sleep(5 * time.Second)
		for range 100 {
			if r := ask(t.Context(), e, "a:hot", settings()); !r.silent || r.took != 0 {
				t.Fatalf("behind it: %+v", r)
			}
		}
		// One who waits for ever is served at the end.
		p.fail("a", nil)
		time.Sleep(time.Second)
		<-over
		leave()
	})
}

// What the log is told: the begin, and the end.
func TestAnOutageIsToldOnceWithItsEnd(t *testing.T) {
	inOutages(t, func(t *testing.T, e *Engine, p *patchy) {
		t.Helper()
		who, s := &party{}, settings()
		try := func() {
			if turn, err := who.take(t.Context(), e, "a:k", s); err == nil {
				_ = end(t.Context(), turn)
			}
		}
		p.fail("a", gone)
		for range 5 {
			try()
		}
		p.fail("a", nil)
		time.Sleep(settings().Backoff.Max) // a probe is due
		try()
		if n := who.news; len(n) != 2 || n[0].Err == nil || n[1].Err != nil || n[1].Lasted < settings().MaxWait {
			t.Errorf("told %+v", who.news)
		}
	})
}

// While all is well, a call costs nothing more.
func TestAdmissionIsFreeWhileAllIsWell(t *testing.T) {
	e := open(t, memlocker.New())
	w := &waiter{Turn: &Turn{common: &e.common, gate: new(gate)}}
	if n := testing.AllocsPerRun(100, func() {
		if may, err := w.admitted(t.Context(), nil); !may || err != nil {
			t.Error(may, err)
		}
		w.noteTry(t.Context(), clearly, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
