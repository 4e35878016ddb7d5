package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Remote describes an adapter for remote calls. A method's message and its
// response are texts, google.protobuf.StringValue.
type Remote struct {
	// Serve serves h behind locks of g until the test ends, and returns the
	// calls of its methods. The lock of each has the key [RemoteKey].
	Serve func(t *testing.T, g *guard.Guard, h RemoteHandler) Methods

	// Pay serves pay behind the adapter's Idempotent until the test ends. Pay
	// returns its calls, one for each protocol. The last one must pass on
	// FailedPrecondition.
	Pay func(t *testing.T, r RemoteRule, pay func(ctx context.Context) (string, error)) []Call

	// Error is the adapter's.
	Error func(ctx context.Context, err error) error

	// Coded makes the framework's error with a gRPC code and a cause. It is nil
	// if the framework has codes of its own.
	Coded func(code int, cause error) error

	// Causes means that Coded keeps the cause.
	Causes bool

	// Kept are more errors of the framework, and whether Idempotent keeps them.
	Kept map[error]bool

	// Known means that the framework knows the calls without a rule, too. Then
	// Error answers Internal.
	Known bool

	// Crashes means that a panic of a handler ends the process.
	Crashes bool
}

// RemoteHandler is the handler of every method of [Remote].Serve. Of a stream
// it gets the messages one by one.
type RemoteHandler func(ctx context.Context, text string) error

// RemoteKey is the key of a message; "" if it has none.
func RemoteKey(text string) string {
	if text == "" {
		return ""
	}
	return guard.Key("stock", text)
}

// Misformatted is a key as a wrong Sprintf makes it.
const Misformatted = "stock:%!d(string=" + secret + ")"

// secret is the message of most calls. No answer may have it.
const secret = "s3cret"

// Methods are the methods of [Remote].Serve, each once for each protocol.
type Methods struct {
	Locked   []Call // of each kind
	Second   []Call // of another unary method, with the same keys
	Free     []Call // of a method without a lock
	Confused []Call // with a lock that takes messages of another type
	Botched  []Call // with a lock whose key is Misformatted
}

// A Call calls a method as a client with headers.
type Call struct {
	Name string
	Do   func(ctx context.Context, text, tenant string, keys ...string) Reply
}

// Reply is what the client of a remote call gets.
type Reply struct {
	Text     string
	Replayed bool // the answer is marked as one
	Err      error

	// of Err
	Code    int    // of gRPC
	Reason  string // by package guard
	Retry   bool   // the client is asked to try again, in all ways in which the adapter does so
	Details string // all
}

// ask calls the method without headers.
func (c Call) ask(ctx context.Context, text string) Reply { return c.Do(ctx, text, "") }

// expectReply fails the test unless got has the code and the reason. A code of
// -1 is any.
func expectReply(t *testing.T, what string, got Reply, code int, reason string, retry bool) {
	t.Helper()
	if code >= 0 && got.Code != code || (got.Err == nil) != (code == rpcguard.OK) || got.Reason != reason ||
		got.Retry != retry {
		t.Errorf("%s: got %d %q, again %v, %v; want %d %q, again %v", what, got.Code, got.Reason, got.Retry, got.Err,
			code, reason, retry)
	}
	if got.Err != nil && strings.Contains(got.Err.Error(), secret) {
		t.Errorf("%s: the error names the key: %v", what, got.Err)
	}
}

// RunRemote runs the table of locks, each row as a subtest. The rows share real
// servers with nothing, and may take a second each.
func RunRemote(t *testing.T, a Remote) {
	t.Helper()
	for name, row := range map[string]func(*testing.T, Remote){
		"each call has its answer":                      remoteAnswers,
		"errors of the handler's own are not changed":   remoteOwnErrors,
		"one call at a time has a key":                  remoteExclusive,
		"a lost lease ends the handler's context":       remoteLost,
		"a panic leaves the key free":                   remotePanic,
		"a waiter whose client has gone leaves":         RunGone,
		"of three calls one finds the queue full":       remoteQueueFull,
		"a store that fails, and calls without a lease": remoteDown,
	} {
		t.Run(name, func(t *testing.T) { row(t, a) })
	}
}

// remoteOf opens a guard and serves h.
func remoteOf(t *testing.T, a Remote, h RemoteHandler, opts ...guard.Option) (*guardtest.Guard, Methods) {
	t.Helper()
	quiet := guard.WithLogger(slog.New(slog.DiscardHandler))
	g := guardtest.New(t, append([]guard.Option{quiet}, opts...)...)
	return g, a.Serve(t, g.Guard, h)
}

func nothingToDo(context.Context, string) error { return nil }

func remoteAnswers(t *testing.T, a Remote) {
	t.Helper()
	g, m := remoteOf(t, a, nothingToDo, guard.WithMaxWait(0))
	rows := func(state string, code int, reason string, retry bool, calls ...Call) {
		for _, c := range calls {
			expectReply(t, c.Name+", "+state, c.ask(t.Context(), secret), code, reason, retry)
		}
	}
	locked := append(m.Second, m.Locked...)
	rows("free", rpcguard.OK, "", false, append(locked, m.Free...)...)
	rows("another type", rpcguard.Internal, "LOCK_MISCONFIGURED", false, m.Confused...)
	rows("a formatted key", rpcguard.Internal, "LOCK_MISCONFIGURED", false, m.Botched...)
	for _, c := range locked {
		for _, text := range []string{"", strings.Repeat(secret, 20_000)} {
			expectReply(t, c.Name+", a bad key", c.ask(t.Context(), text), rpcguard.InvalidArgument,
				"LOCK_KEY_INVALID", false)
		}
	}
	g.Hold(RemoteKey(secret))
	rows("held", rpcguard.Aborted, "LOCK_HELD", true, locked...)
	rows("no lock, held", rpcguard.OK, "", false, m.Free...)
}

func remoteDown(t *testing.T, a Remote) {
	t.Helper()
	g, m := remoteOf(t, a, nothingToDo, guard.WithMaxWait(0))
	mend := g.Break()
	defer mend()
	for _, c := range append(m.Second, m.Locked...) {
		expectReply(t, c.Name, c.ask(t.Context(), secret), rpcguard.Unavailable, "LOCK_UNAVAILABLE", true)
	}
	for _, c := range m.Free {
		expectReply(t, c.Name, c.ask(t.Context(), secret), rpcguard.OK, "", false)
	}
}

// remoteOwnErrors checks that nobody is asked to repeat what a handler has
// begun, and that its own errors stay what they are.
func remoteOwnErrors(t *testing.T, a Remote) {
	t.Helper()
	var own error
	byError := false
	_, m := remoteOf(t, a, func(ctx context.Context, _ string) error {
		if byError {
			return a.Error(ctx, own)
		}
		return own
	}, guard.WithMaxWait(0))
	all := append(m.Second, m.Locked...)
	for _, row := range []struct {
		err    error
		calls  []Call
		code   int
		reason string
	}{
		{&guard.HeldError{Key: secret}, all, rpcguard.Internal, "LOCK_HELD"},
		{guard.ErrNotAcquired, all, rpcguard.Internal, "LOCK_HELD"},
		{guard.ErrQueueFull, all, rpcguard.Internal, "LOCK_QUEUE_FULL"},
		{guard.ErrUnavailable, all, rpcguard.Internal, "LOCK_UNAVAILABLE"},
		{guard.ErrClosed, all, rpcguard.Internal, "LOCK_UNAVAILABLE"},
		{guard.ErrLeaseLost, all, rpcguard.Internal, "LOCK_LOST"},
		{guard.ErrMaxHold, all, rpcguard.Internal, "LOCK_LOST"},
		{guard.ErrNoDefault, all, rpcguard.Internal, "LOCK_MISCONFIGURED"},
		{
			errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded), m.Second, rpcguard.DeadlineExceeded,
			"LOCK_WAIT_ABORTED",
		},
	} {
		for _, c := range row.calls {
			own, byError = row.err, false
			expectReply(t, c.Name+", "+own.Error(), c.ask(t.Context(), secret), row.code, row.reason, false)
		}
	}
	own, byError = guard.ErrQueueFull, true
	for _, c := range all {
		expectReply(t, c.Name+", by Error", c.ask(t.Context(), secret), rpcguard.Internal, "LOCK_QUEUE_FULL", false)
	}
	for _, c := range m.Free {
		code := rpcguard.ResourceExhausted
		if a.Known {
			code = rpcguard.Internal
		}
		expectReply(t, c.Name+", by Error", c.ask(t.Context(), secret), code, "LOCK_QUEUE_FULL", false)
	}
	byError = false
	for own = range a.ownErrors() {
		for i, c := range m.Second {
			bare, got := m.Free[i].ask(t.Context(), secret), c.ask(t.Context(), secret)
			if got.Code != bare.Code || got.Reason != bare.Reason || got.Details != bare.Details ||
				got.Retry != bare.Retry || got.Err.Error() != bare.Err.Error() {
				t.Errorf("%s: %v became %v, want %v", c.Name, own, got, bare)
			}
		}
	}
	if a.Causes {
		remoteCauses(t, a, &own, all)
	}
}

// remoteCauses is about errors with a code and one of guard's as the cause.
func remoteCauses(t *testing.T, a Remote, own *error, calls []Call) {
	t.Helper()
	for _, c := range calls {
		*own = a.Coded(rpcguard.FailedPrecondition, guard.ErrNotAcquired)
		expectReply(t, c.Name+", a code of its own", c.ask(t.Context(), secret), rpcguard.FailedPrecondition, "", false)
		*own = a.Coded(rpcguard.Unavailable, guard.ErrLeaseLost)
		expectReply(t, c.Name+", a loss", c.ask(t.Context(), secret), rpcguard.Internal, "LOCK_LOST", false)
	}
}

// ownErrors returns errors that are not of guard, and whether Idempotent keeps
// them.
func (a Remote) ownErrors() map[error]bool {
	all := map[error]bool{errors.New("own"): false}
	maps.Copy(all, a.Kept)
	if a.Coded == nil {
		return all
	}
	for code := rpcguard.Canceled; code <= rpcguard.Unauthenticated; code++ {
		switch code {
		case rpcguard.InvalidArgument, rpcguard.NotFound, rpcguard.AlreadyExists, rpcguard.PermissionDenied,
			rpcguard.FailedPrecondition, rpcguard.OutOfRange, rpcguard.Unimplemented:
			all[a.Coded(code, errors.New("own"))] = true
		default:
			all[a.Coded(code, errors.New("own"))] = false
		}
	}
	return all
}

func remoteExclusive(t *testing.T, a Remote) {
	t.Helper()
	const each = 3
	var inside, all atomic.Int32
	var g *guardtest.Guard
	g, m := remoteOf(t, a, func(ctx context.Context, text string) error {
		defer inside.Add(-1)
		if n := inside.Add(1); n > 1 {
			t.Errorf("%d calls at once", n)
		}
		time.Sleep(time.Millisecond) // for others to come
		all.Add(1)
		if _, locked := guard.LeaseOf(ctx, RemoteKey(text)); !locked {
			t.Error("no lease")
		}
		return g.Do(ctx, RemoteKey(text), func(context.Context) error { return nil }) // inside
	}, guard.WithMaxWait(time.Hour))
	var wg sync.WaitGroup
	calls := append(m.Second, m.Locked...)
	for _, c := range calls {
		for range each {
			wg.Go(func() { expectReply(t, c.Name, c.ask(t.Context(), "42"), rpcguard.OK, "", false) })
		}
	}
	wg.Wait()
	if n := int(all.Load()); n != each*len(calls) {
		t.Errorf("%d calls are done, want %d", n, each*len(calls))
	}
}

// remoteLost loses leases of handlers that say so and of some that hide it.
func remoteLost(t *testing.T, a Remote) {
	t.Helper()
	var g *guardtest.Guard
	g, m := remoteOf(t, a, func(ctx context.Context, text string) error {
		g.Lose(RemoteKey(text))
		<-ctx.Done()
		if strings.HasPrefix(text, "hides") {
			return nil
		}
		return context.Cause(ctx)
	}, guard.WithTTL(3*time.Second))
	var wg sync.WaitGroup
	for i, c := range m.Locked {
		for _, text := range []string{fmt.Sprint("says", i), fmt.Sprint("hides", i)} {
			wg.Go(func() {
				expectReply(t, c.Name+", "+text, c.ask(t.Context(), text), rpcguard.Internal, "LOCK_LOST", false)
			})
		}
	}
	wg.Wait()
}

func remotePanic(t *testing.T, a Remote) {
	t.Helper()
	if a.Crashes {
		return
	}
	g, m := remoteOf(t, a, func(context.Context, string) error { panic("own") }, guard.WithMaxWait(0))
	for _, c := range m.Locked {
		if got := c.ask(t.Context(), "42"); got.Err == nil || got.Reason != "" {
			t.Errorf("%s: got %v", c.Name, got.Err)
		}
		g.Hold(RemoteKey("42"))() // fails if the key is still held
	}
}

// waits tells how waits begin and end.
type waits struct {
	guard.NopObserver

	began chan struct{}
	ended chan error
}

func (w waits) WaitStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	w.began <- struct{}{}
	return ctx
}

func (w waits) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) { w.ended <- r.Err }

// RunGone checks that a waiter whose client has gone leaves the queue. It is a
// row of [RunRemote].
func RunGone(t *testing.T, a Remote) {
	t.Helper()
	w := waits{began: make(chan struct{}, 1), ended: make(chan error, 1)}
	g, m := remoteOf(t, a, nothingToDo, guard.WithMaxWait(time.Hour), guard.WithObserver(w))
	g.Hold(RemoteKey("42"))
	for _, c := range m.Locked {
		ctx, leave := context.WithCancel(t.Context())
		got := make(chan Reply)
		go func() { got <- c.ask(ctx, "42") }() // ends with leave
		<-w.began
		leave()
		if err := <-w.ended; !errors.Is(err, guard.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the wait ended with %v", c.Name, err)
		}
		if r := <-got; r.Err == nil || r.Reason != "" {
			t.Errorf("%s: got %v", c.Name, r.Err)
		}
	}
}

// remoteQueueFull has one call that contends for the key, one in line, and one
// too many.
func remoteQueueFull(t *testing.T, a Remote) {
	t.Helper()
	g, m := remoteOf(t, a, nothingToDo, guard.WithMaxWait(time.Hour), guard.WithMaxWaiters(1))
	for _, c := range m.Locked {
		release := g.Hold(RemoteKey("42"))
		got := make(chan Reply)
		for range 3 {
			go func() { got <- c.ask(t.Context(), "42") }() // ends with release
		}
		expectReply(t, c.Name, <-got, rpcguard.ResourceExhausted, "LOCK_QUEUE_FULL", true)
		release()
		for range 2 {
			expectReply(t, c.Name, <-got, rpcguard.OK, "", false)
		}
	}
}
