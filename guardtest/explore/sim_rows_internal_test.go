package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// undone is a crash of the store, which loses the last write if that was loose.
const undone kind = "undone"

// unseenFor is how much later others see a write, with its messages and its
// answer: less than an offer, and more.
//
// A store without a clock shows a write to all looks at once, by its law of
// Load. The short one is more than that law allows.
var unseenFor = map[kind]time.Duration{"unseen-700ms": 700 * ms, unseenLong: 1500 * ms}

const unseenLong kind = "unseen-1.5s"

var rowLoadKinds, rowSwapKinds, rowMessageKinds []kind

func init() {
	rowLoadKinds = slices.Concat([]kind{
		yield, swap, crash, crashBefore, lostAnswer, lostRequest, pause, longPause, cut, refused, partition, fading,
		blackout, undone,
	}, lates, answers)
	unseen := slices.Sorted(maps.Keys(unseenFor))
	rowSwapKinds = append(slices.Clip(rowLoadKinds), "unseen-700ms")
	rowMessageKinds = append([]kind{yield, swap, crash, pause, lostMessage, twice, cut, partition}, lates...)
	simplest = append(append(simplest, unseen...), undone)
}

// rowNet is the network between the guards of a run and one store of rows in
// memory. Each Load, each Swap and each message is a gate, and so are the
// others. Its methods are safe for concurrent use.
type rowNet struct {
	*wires

	store *rowStore
}

func newRowNet(w *World, k *rowKind) *rowNet { return &rowNet{newWires(w), newRowStore(k)} }

// begin implements simNet. A renewal takes a read and a write without Blind, so
// that such a store cannot be as far.
func (n *rowNet) begin(c *sim) {
	if n.far = c.far; !n.store.kind.blind {
		n.far /= 2
	}
}

// left implements simNet.
func (n *rowNet) left(closed bool) []string { return n.store.left(closed) }

// forget implements network.
func (n *rowNet) forget() { panic("explore: a store of rows never loses all") }

// locker implements network.
func (n *rowNet) locker(p *process) locker.Locker {
	l := &rowLine{net: n, p: p}
	switch k := n.store.kind; {
	case k.membership && !k.tickets, k.tickets && !k.pulse, k.pulse && !k.ears:
		panic(k.name + ": members need tickets, tickets a pulse, a pulse ears; see deaf")
	case k.pulse:
		return rowlocker.New(rowPulse{rowEars{l}})
	case k.ears:
		return rowlocker.New(rowEars{l})
	}
	return rowlocker.New(l)
}

// rowLine is the Rows of one process.
type rowLine struct {
	net *rowNet
	p   *process

	mu     sync.Mutex // guards the fields below
	beaten time.Time  // last
	hangUp func()     // ends the messages
}

func unavailable(why error) error { return fmt.Errorf("%w: simulated: %w", locker.ErrUnavailable, why) }

var (
	errBroken = errors.New("the connection has broken")
	errAway   = errors.New("the run is over")
)

// ask sends a request, and blocks until there is an answer or ctx ends. do
// carries the request out, at the store, and says what came of it. The request
// may arrive when ctx has ended.
func (l *rowLine) ask(ctx context.Context, what string, kinds []kind, keys touched,
	do func(k kind) string,
) (err error) {
	if l.net.store.kind.clock {
		kinds = append(slices.Clip(kinds), clockOn, clockBack)
	}
	answer := make(chan error, 1)
	go l.carry(what, kinds, keys, do, answer) // ends with the request, or with the run
	select {
	case err = <-answer:
	case <-ctx.Done():
		select {
		case err = <-answer: // both at once
		default: // with its caller, and behind it
			l.p.passUntil(context.Background(), "silence of "+what, minor, nothing)
			err = unavailable(ctx.Err())
		}
	case <-l.p.end:
		err = unavailable(errAway)
	}
	l.p.freeze()
	return err
}

// carry takes a request to the store, and its answer back.
func (l *rowLine) carry(what string, kinds []kind, keys touched, do func(k kind) string, answer chan<- error) {
	n, p := l.net, l.p
	n.travel()
	k := p.pass(what, kinds, keys)
	if n.outFor(p) > 0 || !l.before(k, what, keys, answer) {
		return
	}
	told := do(k)
	n.w.log(p, what+" -> "+told)
	d := max(answerBy[k], unseenFor[k])
	switch k {
	case crash:
		p.crash()
		return
	case lostAnswer:
		n.w.unheard(p)
		return
	case cut:
		answer <- unavailable(errBroken)
		return
	case fading:
		d = fadingBy
	}
	if d > 0 && !n.hold(p, d, "answer of "+what, nothing) {
		return
	}
	if n.far > 0 {
		n.travel()
		p.pass("answer of "+what, minor, nothing) // one after the other
	}
	p.freeze()
	if n.outFor(p) <= 0 {
		answer <- nil
	}
	if k == fading {
		l.isolate(k)
	}
}

// before is what happens to a request. before reports whether it comes to the
// store.
func (l *rowLine) before(k kind, what string, keys touched, answer chan<- error) (arrives bool) {
	switch k {
	case over, lostRequest:
		return false
	case refused:
		answer <- unavailable(errors.Join(locker.ErrUnsent, errRefused))
		return false
	case partition, blackout:
		l.isolate(k)
		return false
	case crashBefore:
		l.p.crash()
		return false
	case pause, longPause:
		return l.p.stand(k, keys) != over
	case undone:
		l.net.store.crash()
	case clockOn, clockBack:
		l.net.store.setClock(clockBy[k])
		if clockBy[k] > 0 {
			l.net.loses() // leases end too early
		}
	}
	return lateBy[k] == 0 || l.net.hold(l.p, lateBy[k], what, keys)
}

// isolate keeps the process from the store for as long as k takes. Then it
// learns that it has missed messages.
func (l *rowLine) isolate(k kind) {
	l.net.isolate(l.p, k)
	time.AfterFunc(limits.Apart(outages[k]), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hangUp != nil {
			l.hangUp()
		}
	})
}

// Traits implements [rowlocker.Rows].
func (l *rowLine) Traits() rowlocker.Traits { return l.net.store.kind.traits() }

// Open implements [rowlocker.Rows].
func (*rowLine) Open() error { return nil }

// Close implements [rowlocker.Rows].
func (*rowLine) Close() {}

// Check implements [rowlocker.Rows].
func (*rowLine) Check(_ context.Context, _, _ time.Duration, failed error) error { return failed }

// Load implements [rowlocker.Rows].
func (l *rowLine) Load(ctx context.Context, keys []string) (rows []rowlocker.Row, err error) {
	sorted := slices.Sorted(slices.Values(keys)) // the same in each run
	if err := l.ask(ctx, "load "+names(sorted), rowLoadKinds, sorted, func(kind) string {
		rows = l.net.store.load(l.p.name, sorted)
		var versions []int64
		for _, r := range rows {
			versions = append(versions, r.Version)
		}
		return fmt.Sprint(versions)
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b rowlocker.Row) int {
		return slices.Index(keys, a.Key) - slices.Index(keys, b.Key)
	})
	return rows, nil
}

// Scan implements [rowlocker.Rows].
func (l *rowLine) Scan(ctx context.Context, after string, n int) (rows []rowlocker.Row, err error) {
	if err := l.ask(ctx, "scan", rowLoadKinds, nothing, func(kind) string {
		rows = l.net.store.scan(l.p.name, after, n)
		return strconv.Itoa(len(rows))
	}); err != nil {
		return nil, err
	}
	return rows, nil
}

// Swap implements [rowlocker.Rows].
func (l *rowLine) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	var sent []*rowlocker.Change // as they travel: the caller may give up meanwhile
	var what []string
	var keys touched
	changes = slices.Clone(changes) // in an order that is the same in each run
	slices.SortFunc(changes, func(a, b *rowlocker.Change) int { return cmp.Compare(named(a), named(b)) })
	for _, c := range changes {
		d := *c
		d.Rows = slices.Clone(c.Rows)
		if c.Join != nil {
			j := *c.Join
			d.Join = &j
		}
		sent = append(sent, &d)
		_, ks := describe(c)
		what, keys = append(what, named(c)), append(keys, ks...)
	}
	kinds := rowSwapKinds
	if l.net.store.kind.clock {
		kinds = append(slices.Clip(kinds), unseenLong)
	}
	if err := l.ask(ctx, strings.Join(what, " "), kinds, keys, func(k kind) string {
		var told []string
		for _, c := range sent {
			if l.net.store.swap(l.p.name, c, unseenFor[k]); c.Done {
				told = append(told, strconv.FormatInt(c.Version, 10))
			} else {
				told = append(told, "refused")
			}
		}
		return strings.Join(told, " ")
	}); err != nil {
		return err
	}
	for i, c := range sent {
		to := changes[i]
		to.Done, to.Version, to.Written, to.Current, to.Dead = c.Done, c.Version, c.Written, c.Current, c.Dead
	}
	return nil
}

func names(keys []string) string { return strings.Join(keys, " ") }

func named(c *rowlocker.Change) string {
	verb, keys := describe(c)
	return verb + " " + names(keys)
}

// describe names a Change in plans.
func describe(c *rowlocker.Change) (verb string, keys []string) {
	if j := c.Join; j != nil {
		if verb = "join"; j.Leave {
			verb = "leave"
		}
		return verb, []string{j.Key}
	}
	verb = "free"
	for _, r := range c.Rows {
		keys = append(keys, r.Key)
		if r.HeldFor > 0 && verb == "free" {
			verb = "swap"
		}
	}
	return verb, keys
}

// rowEars are Rows that bring messages.
type rowEars struct{ *rowLine }

// Listen implements [rowlocker.Ears].
func (l rowEars) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	if l.net.store.kind.deaf {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.rowLine.hangUp = cancel
	l.mu.Unlock()
	l.p.freeze()
	if out := l.net.outFor(l.p); out > 0 {
		select {
		case <-time.After(limits.Apart(out)):
		case <-ctx.Done():
		case <-l.p.end:
			<-ctx.Done()
		}
		return
	}
	if l.p.passUntil(ctx, "listen", dialKinds, nothing) != goOn {
		return
	}
	l.net.store.listen(ctx, instance, func(r rowlocker.Row) { l.pass(ctx, r, hear, cancel) }, awake)
}

// pass hands on one message.
func (l rowEars) pass(ctx context.Context, r rowlocker.Row, hear func(rowlocker.Row), hangUp func()) {
	what, n, p := "hear "+r.Key, l.net, l.p
	k := p.passUntil(ctx, what, rowMessageKinds, nothing)
	switch {
	case n.outFor(p) > 0, k == lostMessage, k == over:
		return
	case k == cut:
		hangUp()
		return
	case k == crash:
		p.crash()
		return
	case lateBy[k] > 0:
		go func() { // ends with the message, or with the run
			if n.hold(p, lateBy[k], what, nothing) && ctx.Err() == nil {
				p.freeze()
				hear(r)
			}
		}()
		return
	case k == twice:
		hear(r)
	case !l.before(k, what, nothing, nil):
		return
	}
	p.freeze()
	if ctx.Err() == nil {
		n.w.log(p, what)
		hear(r)
	}
}

// rowPulse are Rows that tell who is alive.
type rowPulse struct{ rowEars }

// Beat implements [rowlocker.Pulse].
func (l rowPulse) Beat(ctx context.Context, instance string) error {
	l.mu.Lock()
	fresh := time.Since(l.beaten) < pulseLife/3
	l.mu.Unlock()
	if fresh {
		return nil
	}
	now := time.Now()
	err := l.ask(ctx, "beat", rowLoadKinds, nothing, func(kind) string {
		l.net.store.beat(l.p.name, instance)
		return ""
	})
	if err == nil {
		l.mu.Lock()
		l.rowLine.beaten = now
		l.mu.Unlock()
	}
	return err
}

// Dead implements [rowlocker.Pulse].
func (l rowPulse) Dead(ctx context.Context, instances []string) (dead []string, err error) {
	if err := l.ask(ctx, "pulses", rowLoadKinds, nothing, func(kind) string {
		dead = l.net.store.dead(instances)
		return strconv.Itoa(len(dead))
	}); err != nil {
		return nil, err
	}
	return dead, nil
}
