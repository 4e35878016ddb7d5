package lockmwtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// RemoteRule says how [Remote].Pay makes its rule of Idempotent.
type RemoteRule struct {
	Guard   *guard.Guard
	Method  string // instead of the adapter's own, if it is not ""
	NoScope bool   // otherwise the scope is the header Tenant
	TTL     time.Duration
	Options []rpcopt.IdempotentOption
	Inside  *guard.Guard // of a lock between the rule and the handler, with the key RemoteKey; nil: there is none
}

// till is a method that pays, in two instances behind a rule of Idempotent.
type till struct {
	*testing.T

	locker *memlocker.Locker
	guards [2]*guard.Guard
	calls  [2][]Call // of each instance, by each protocol

	runs    atomic.Int32
	leases  atomic.Int32 // of runs
	answers func(run int32) (string, error)
}

func newTill(t *testing.T, answers func(run int32) (string, error), opts ...guard.Option) *till {
	t.Helper()
	s := &till{T: t, locker: memlocker.New(), answers: answers}
	opts = append([]guard.Option{guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute)}, opts...)
	s.guards = [2]*guard.Guard{testguard.New(t, s.locker, opts...), testguard.New(t, s.locker.Peer(), opts...)}
	return s
}

// open starts the instances, with changes to the rule.
func (s *till) open(a Remote, changes ...func(*RemoteRule)) *till {
	s.Helper()
	for i, g := range s.guards {
		rule := RemoteRule{Guard: g, TTL: time.Hour}
		for _, change := range changes {
			change(&rule)
		}
		s.calls[i] = a.Pay(s.T, rule, s.pay)
	}
	return s
}

func (s *till) pay(ctx context.Context) (string, error) {
	if _, found := guard.LeaseOf(ctx, paymentKey); found {
		s.leases.Add(1)
	}
	return s.answers(s.runs.Add(1))
}

// paymentKey is the name of most payments in the store.
var paymentKey = guard.Key("idempotent", "ann", "k")

// at calls an instance by the last protocol.
func (s *till) at(instance int, tenant, text string, keys ...string) Reply {
	return s.calls[instance][len(s.calls[instance])-1].Do(s.Context(), text, tenant, keys...)
}

// ann is the payment of 10 by ann, with the key k.
func (s *till) ann(instance int) Reply { return s.at(instance, "ann", "10", "k") }

func (s *till) expectPaid(what string, got Reply, replayed bool) {
	s.Helper()
	if got.Text != "paid" || got.Err != nil || got.Replayed != replayed {
		s.Errorf("%s: got %+v, want a replay: %v", what, got, replayed)
	}
}

func (s *till) expectRuns(want int32) {
	s.Helper()
	if got := s.runs.Load(); got != want {
		s.Errorf("%d runs, want %d", got, want)
	}
}

func paid(int32) (string, error) { return "paid", nil }

// RunRemoteIdempotent runs the table of the adapter's Idempotent for remote
// calls, each row as a subtest.
func RunRemoteIdempotent(t *testing.T, a Remote) {
	t.Helper()
	for name, row := range map[string]func(*testing.T, Remote){
		"a call that comes again gets the answer, by each protocol": remoteAgain,
		"calls that come meanwhile get the answer":                  remoteMeanwhile,
		"a call that may not wait is refused meanwhile":             remoteInProgress,
		"which errors are kept":                                     remoteKept,
		"a lost lease keeps no answer":                              remoteLostAnswer,
		"at most once: nothing runs again that may have paid":       remoteAtMostOnce,
		"a lock in front of the handler leaves no mark":             remoteLockInside,
		"an answer that is too long is gone":                        remoteTooLong,
		"options":                                                   remoteOptions,
		"a key that alone tells calls apart":                        remoteKeyAlone,
		"rules that cannot work are refused":                        remoteRefused,
	} {
		t.Run(name, func(t *testing.T) { row(t, a) })
	}
}

// remoteAgain checks that one record serves all instances and protocols.
func remoteAgain(t *testing.T, a Remote) {
	t.Helper()
	s := newTill(t, paid).open(a)
	for i, c := range append(s.calls[0], s.calls[1]...) {
		s.expectPaid(c.Name, c.Do(t.Context(), "10", "ann", "k"), i > 0)
	}
	s.expectPaid("another scope", s.at(1, "bob", "10", `"k"`), false)
	s.expectPaid("another scope", s.at(0, "bob", "10", "k"), true)
	s.expectRuns(2)
	if s.leases.Load() != 1 {
		t.Error("the first run has no lease, or on another key")
	}
	for _, c := range append(s.calls[0], s.calls[1]...) {
		expectReply(t, "another message", c.Do(t.Context(), "11", "ann", "k"), rpcguard.InvalidArgument,
			"IDEMPOTENCY_KEY_REUSED", false)
		for _, keys := range [][]string{nil, {""}, {"k", "k"}, {"k 1"}} {
			expectReply(t, "a bad key", c.Do(t.Context(), "10", "ann", keys...), rpcguard.InvalidArgument,
				"IDEMPOTENCY_KEY_INVALID", false)
		}
		expectReply(t, "an empty scope", c.Do(t.Context(), "10", "", "k"), rpcguard.Internal,
			"LOCK_MISCONFIGURED", false)
	}
	s.expectRuns(2)
}

func remoteMeanwhile(t *testing.T, a Remote) {
	t.Helper()
	const callers = 8
	all := make(chan struct{})
	s := newTill(t, func(int32) (string, error) {
		<-all
		return "paid", nil
	}).open(a)
	got := make(chan Reply, callers)
	for i := range callers {
		go func() { got <- s.ann(i % 2) }()
	}
	close(all)
	fresh := 0
	for range callers {
		r := <-got
		s.expectPaid("meanwhile", r, r.Replayed)
		if !r.Replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as replays, want 1", fresh)
	}
	s.expectRuns(1)
}

func remoteInProgress(t *testing.T, a Remote) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	s := newTill(t, func(int32) (string, error) {
		close(begun)
		<-end
		return "paid", nil
	}, guard.WithMaxWait(0)).open(a)
	first := make(chan Reply, 1)
	go func() { first <- s.ann(0) }()
	<-begun
	expectReply(t, "in progress", s.ann(1), rpcguard.Aborted, "LOCK_HELD", true)
	close(end)
	s.expectPaid("the first", <-first, false)
	s.expectPaid("then", s.ann(1), true)
	s.expectRuns(1)
}

func remoteKept(t *testing.T, a Remote) {
	t.Helper()
	rows := a.ownErrors()
	rows[&guard.HeldError{}], rows[guard.ErrUnavailable] = false, false
	var own error
	s := newTill(t, func(int32) (string, error) { return "", own }).open(a)
	for err, kept := range rows {
		for i, c := range s.calls[0] {
			own = err
			s.runs.Store(0)
			first, then := c.Do(t.Context(), "10", "ann", "k"), s.calls[1][i].Do(t.Context(), "10", "ann", "k")
			if first.Replayed || then.Replayed != kept || first.Code != then.Code || first.Reason != then.Reason ||
				first.Details != then.Details || first.Err == nil || then.Err == nil ||
				first.Err.Error() != then.Err.Error() {
				t.Errorf("%s, %v: got %+v, then %+v", c.Name, err, first, then)
			}
			if kept {
				s.expectRuns(1)
			} else {
				s.expectRuns(2)
			}
			if _, err := s.guards[0].Forget(t.Context(), paymentKey); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func remoteLostAnswer(t *testing.T, a Remote) {
	t.Helper()
	var s *till
	s = newTill(t, func(run int32) (string, error) {
		if run == 1 {
			s.locker.Lose(paymentKey)
		}
		return "paid", nil
	}).open(a)
	expectReply(t, "a lost lease", s.ann(0), rpcguard.Internal, "LOCK_LOST", false)
	s.expectPaid("then", s.ann(1), false)
	s.expectRuns(2)
}

func remoteAtMostOnce(t *testing.T, a Remote) {
	t.Helper()
	own := errors.New("own")
	s := newTill(t, func(int32) (string, error) { return "", own }, guard.WithAtMostOnce()).open(a)
	if got := s.ann(0); got.Err == nil || got.Reason != "" {
		t.Errorf("the handler's error is %+v", got)
	}
	expectReply(t, "then", s.ann(1), rpcguard.FailedPrecondition, "IDEMPOTENCY_INTERRUPTED", false)
	s.expectRuns(1)

	for nothing := range a.nothingDone() {
		s = newTill(t, func(int32) (string, error) { return "", nothing }, guard.WithAtMostOnce()).open(a)
		for i := range s.guards {
			if got := s.ann(i); got.Err == nil || got.Reason != "" || got.Replayed {
				t.Errorf("nothing done, by %v: %+v", nothing, got)
			}
		}
		s.expectRuns(2)
	}
}

// nothingDone are errors that say that a handler has done nothing.
func (a Remote) nothingDone() map[error]bool {
	errs := map[error]bool{guard.NothingDone(errors.New("own")): true}
	if a.Coded != nil {
		errs[a.Coded(rpcguard.Unauthenticated, errors.New("own"))] = true
		errs[guard.NothingDone(a.Coded(rpcguard.Unavailable, errors.New("own")))] = true
	}
	return errs
}

func remoteLockInside(t *testing.T, a Remote) {
	t.Helper()
	s := newTill(t, paid, guard.WithAtMostOnce())
	s.open(a, func(r *RemoteRule) { r.Inside = r.Guard.With(guard.WithMaxWait(0)) })
	l, err := s.guards[1].Acquire(t.Context(), RemoteKey("10"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.calls[0] {
		expectReply(t, c.Name, c.Do(t.Context(), "10", "ann", "k"), rpcguard.Aborted, "LOCK_HELD", true)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	s.expectRuns(0)
	s.expectPaid("then", s.ann(0), false)
	s.expectRuns(1)
}

func remoteTooLong(t *testing.T, a Remote) {
	t.Helper()
	long := func(int32) (string, error) { return strings.Repeat("x", 100), nil }
	s := newTill(t, long, guard.WithResultLimit(100)).open(a)
	if got := s.ann(0); len(got.Text) != 100 || got.Err != nil {
		t.Errorf("got %d bytes, %v", len(got.Text), got.Err)
	}
	expectReply(t, "then", s.ann(1), rpcguard.FailedPrecondition, "IDEMPOTENCY_ANSWER_GONE", false)
	s.expectRuns(1)
}

// text is the message of a payment.
type text interface{ GetValue() string }

// word returns a word of a message, by its number.
func word(n int) func(context.Context, text) (string, error) {
	return func(_ context.Context, m text) (string, error) {
		words := append(strings.Fields(m.GetValue()), "", "")
		return words[n], nil
	}
}

func remoteOptions(t *testing.T, a Remote) {
	t.Helper()
	var told atomic.Int32
	s := newTill(t, paid).open(a, func(r *RemoteRule) {
		r.Options = []rpcopt.IdempotentOption{
			rpcopt.WithIdempotencyKey(word(0)), rpcopt.WithFingerprint(word(1)), rpcopt.WithOptionalKey(),
			rpcopt.WithReplayHook(func(context.Context) { told.Add(1) }),
		}
	})
	for i, row := range []struct {
		text     string
		runs     int32
		replayed bool
	}{{"k 10", 1, false}, {"k  10", 1, true}, {"", 2, false}, {"", 3, false}} {
		s.expectPaid(row.text, s.at(i%2, "ann", row.text), row.replayed)
		if told.Swap(0) == 1 != row.replayed {
			t.Errorf("%q: told of a replay: %v", row.text, !row.replayed)
		}
		s.expectRuns(row.runs)
	}
	if s.leases.Load() != 1 {
		t.Errorf("%d calls had a lease, want only the one with a key", s.leases.Load())
	}
	expectReply(t, "another value", s.at(1, "ann", "k 11"), rpcguard.InvalidArgument, "IDEMPOTENCY_KEY_REUSED", false)
	expectReply(t, "a long key", s.at(0, "ann", strings.Repeat("k", 256)), rpcguard.InvalidArgument,
		"IDEMPOTENCY_KEY_INVALID", false)
	s.expectRuns(3)

	wrong := func(context.Context, int) (string, error) { return "k", nil }
	s = newTill(t, paid).open(a, func(r *RemoteRule) {
		r.Options = []rpcopt.IdempotentOption{rpcopt.WithIdempotencyKey(wrong)}
	})
	expectReply(t, "a key of another message", s.ann(0), rpcguard.Internal, "LOCK_MISCONFIGURED", false)
	s.expectRuns(0)
}

func remoteKeyAlone(t *testing.T, a Remote) {
	t.Helper()
	s := newTill(t, paid).open(a, func(r *RemoteRule) {
		r.Options = []rpcopt.IdempotentOption{rpcopt.WithoutFingerprint()}
	})
	s.expectPaid("the first", s.ann(0), false)
	s.expectPaid("another message", s.at(1, "ann", "11", "k"), true)
	s.expectRuns(1)
}

func remoteRefused(t *testing.T, a Remote) {
	t.Helper()
	s := newTill(t, paid)
	for name, change := range map[string]func(*RemoteRule){
		"no scope":     func(r *RemoteRule) { r.NoScope = true },
		"no ttl":       func(r *RemoteRule) { r.TTL = 0 },
		"a bad name":   func(r *RemoteRule) { r.Method = "buy" },
		"a nil option": func(r *RemoteRule) { r.Options = []rpcopt.IdempotentOption{nil} },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			s.open(a, change)
		}()
	}
}
