package turns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const stageKey = "k"

// A stage is where a transcript is played: processes on one store. The test's
// goroutine alone uses the fields above mu.
type stage struct {
	t         *testing.T
	newLocker func() locker.Locker
	start     time.Time
	processes map[string]*process
	calls     map[string]*call

	mu     sync.Mutex        // guards the fields below
	claims map[string]string // owner id -> name
	said   []string          // since the last report
}

// A process is an engine behind a link to the store, which can fail.
type process struct {
	locker.Locker

	stage  *stage
	name   string
	engine *Engine
	waker  locker.Waker
	dead   bool // the stage's

	// Guarded by stage.mu.
	made int  // claims
	cut  bool // no request and no message passes
	deaf bool // the next message is lost
}

// A call is one caller of a process. Its goroutine ends when back is closed or
// its context ends.
type call struct {
	name    string
	process *process
	leave   context.CancelFunc
	back    chan struct{} // closed when its function returns
	over    chan struct{} // closed when its goroutine ends
	turn    *Turn         // set when its turn begins; read only when all goroutines are idle
}

func newStage(t *testing.T, newLocker func() locker.Locker) *stage {
	t.Helper()
	return &stage{
		t: t, newLocker: newLocker, start: time.Now(),
		processes: make(map[string]*process), calls: make(map[string]*call), claims: make(map[string]string),
	}
}

// end ends all calls and closes all engines.
func (s *stage) end() {
	for _, p := range s.processes {
		p.link(false, false)
	}
	for _, c := range s.calls {
		c.leave()
		<-c.over
	}
	for _, p := range s.processes {
		if err := p.engine.Close(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// say adds a line to the next report.
func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// do carries out a command, and waits until everybody is idle.
func (s *stage) do(line string) {
	s.t.Helper()
	defer synctest.Wait()
	who, what, _ := strings.Cut(line, " ")
	if d, err := time.ParseDuration(who); err == nil && strings.HasPrefix(what, "pass") {
		time.Sleep(d)
		return
	}
	switch p := s.process(who[:1]); what {
	case "takes":
		s.calls[who] = p.takes(who, settings())
	case "takes, with tokens":
		set := settings()
		set.Fencing = true
		s.calls[who] = p.takes(who, set)
	case "asks for its token":
		t := s.calls[who].turn
		if t == nil {
			s.say("%s: no turn yet", who)
			return
		}
		token, err := t.Token(s.t.Context())
		s.answered(who+"'s token", s.token(token), err)
	case "returns":
		close(s.calls[who].back)
	case "leaves":
		s.calls[who].leave()
	case "is cut off":
		p.link(true, false)
	case "dies": // nothing that it does matters to others any more
		p.link(true, false)
		p.dead = true
	case "is connected":
		p.link(false, false)
	case "does not hear the next message":
		p.link(false, true)
	case "waits for 10,000 keys more":
		p.engine.paused.Add(10_000)
	case "releases what it does not own":
		_, err := p.Locker.Release(s.t.Context(), &locker.Claim{
			Key: stageKey, Owner: lockerkit.NewID(), TTL: settings().TTL,
		}, locker.End{})
		s.answered(who+"'s release", "ok", err)
	default:
		s.t.Fatalf("nobody knows how to do this: %s", line)
	}
}

// token spells a token as the time since the start, which is what the stores
// count from.
func (s *stage) token(token uint64) string {
	return fmt.Sprint("start + ", int64(token)-s.start.UnixMicro())
}

func (s *stage) answered(what, answer string, err error) {
	if err != nil {
		answer = "refused, " + strings.TrimPrefix(sentinel(err).Error(), "guard: ")
	}
	s.say("%s: %s", what, answer)
}

// sentinel returns the error of package locker in err. Stores add different
// words.
func sentinel(err error) error {
	for _, known := range []error{locker.ErrLeaseLost, locker.ErrUnavailable, ErrEnded, ErrHeld} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// process returns the process of that name. The first command for it starts it.
func (s *stage) process(name string) *process {
	if p := s.processes[name]; p != nil {
		return p
	}
	p := &process{Locker: s.newLocker(), stage: s, name: name}
	p.engine = open(s.t, p)
	s.processes[name] = p
	return p
}

// takes starts a call.
func (p *process) takes(name string, set Settings) *call {
	ctx, leave := context.WithCancel(p.stage.t.Context())
	set.Name, set.MaxWait = name, time.Hour
	c := &call{name: name, process: p, leave: leave, back: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(c.over)
		turn, err := new(party).take(ctx, p.engine, stageKey, set)
		if err != nil {
			if !errors.Is(err, ErrEnded) {
				p.stage.answered(name, "", err)
			}
			return
		}
		c.turn = turn
		select {
		case <-c.back:
		case <-ctx.Done():
		}
		if err := end(context.WithoutCancel(ctx), turn); err != nil {
			p.stage.answered(name+"'s return", "", err)
		}
	}()
	return c
}

// report returns what was said, and what the store and the processes know.
func (s *stage) report() string {
	s.mu.Lock()
	lines := s.said
	s.said = nil
	s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.processes))
	lines = append(lines, "key: "+s.key(s.processes[names[0]].Locker))
	for _, name := range names {
		if known := s.processes[name].known(); known != "" {
			lines = append(lines, name+": "+known)
		}
	}
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&out, "    %s\n", line)
	}
	return out.String()
}

// key describes the key in the store.
func (s *stage) key(l locker.Locker) string {
	state, err := l.Inspect(s.t.Context(), stageKey)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	said := "free"
	if state.Held {
		said = fmt.Sprintf("%s for %d s", s.claims[state.Owner], seconds(state.Remaining)/time.Second)
	}
	var queue []string
	for _, w := range state.Waiters {
		queue = append(queue, s.claims[w.Owner])
	}
	return then(said, queue)
}

// known describes what p knows of the key: its calls that run on without it,
// its floor with its alarm, and its line.
func (p *process) known() string {
	gt := p.engine.gates.find(stageKey)
	if gt == nil || p.dead {
		return ""
	}
	gt.mu.Lock()
	defer gt.mu.Unlock()
	var known []string
	for _, t := range gt.overrunning {
		known = append(known, t.set.Name+" runs on without the key")
	}
	switch t := gt.floor; {
	case t == nil:
	case gt.grant != nil:
		known = append(known, t.set.Name+" has its turn")
	default:
		known = append(known, t.set.Name+" "+gt.contender.alarm.describe())
	}
	var line []string
	for t := gt.line.first; t != nil; t = t.next {
		line = append(line, t.set.Name)
	}
	return then(strings.Join(known, "; "), line)
}

// then adds the names that follow to a text.
func then(said string, names []string) string {
	if len(names) == 0 {
		return said
	}
	return said + ", then " + strings.Join(names, " ")
}

// describe says when the contender acts next.
func (a *alarm) describe() string {
	switch {
	case a.state == asleep && time.Until(a.at) > locker.LookEvery:
		return "rests"
	case a.state == asleep:
		return "is asleep"
	}
	return fmt.Sprint("is in alarm state ", int(a.state))
}
