package rpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// payment is the message of a call, and its request too.
type payment struct{ id, account, cents, note string }

func of(field func(payment) string) func(context.Context, payment) (string, error) {
	return func(_ context.Context, p payment) (string, error) { return field(p), nil }
}

func id(p payment) string      { return p.id }
func account(p payment) string { return p.account }
func cents(p payment) string   { return p.cents }

func settings(opts ...rpcopt.IdempotentOption) rpcguard.Settings {
	return rpcguard.SettingsOf(rpcguard.Settings{}, opts)
}

// pay returns a function that calls a rule with opts. It returns the answer,
// and whether the handler ran under a lease.
func pay(t *testing.T, opts ...rpcopt.IdempotentOption) func(message any) (answer string, leased bool, err error) {
	t.Helper()
	return calls(t, guardtest.New(t).Guard, "/shop.Bank/Pay", opts...)
}

// calls is pay for any method.
func calls(t *testing.T, g *guard.Guard, method string, opts ...rpcopt.IdempotentOption,
) func(message any) (answer string, leased bool, err error) {
	t.Helper()
	runs := 0
	r := rpcguard.NewIdempotent(g, method, func(context.Context) (string, error) { return "ann", nil },
		time.Hour, rpcguard.Answers{
			Names: func(context.Context, any) []string { return nil },
			Text:  func(m any) ([]byte, error) { return fmt.Append(nil, m), nil },
			Record: func(_ context.Context, resp any, _ error) ([]byte, error) {
				return []byte(resp.(string)), nil
			},
			Replay: func(_ context.Context, record []byte) (any, error) { return "again: " + string(record), nil },
			Error:  func(_ context.Context, _ *rpcguard.Rule, err error) error { return err },
		}, settings(opts...))
	return func(message any) (answer string, leased bool, err error) {
		resp, err := r.Serve(t.Context(), g, message, func(ctx context.Context) (any, error) {
			runs++
			_, leased = guard.LeaseFrom(ctx)
			return fmt.Sprint("paid ", runs), nil
		})
		answer, _ = resp.(string)
		return answer, leased, err
	}
}

func TestCallsAreTheSameByTheChosenFunctions(t *testing.T) {
	whole, values, alone := "whole message", "chosen values", "key alone"
	for name, opts := range map[string][]rpcopt.IdempotentOption{
		whole:  nil,
		values: {rpcopt.WithFingerprint(of(account), of(cents))},
		alone:  {rpcopt.WithoutFingerprint()},
	} {
		told := 0
		opts = append(opts, rpcopt.WithIdempotencyKey(of(id)), rpcopt.WithReplayHook(func(context.Context) { told++ }))
		pay := pay(t, opts...)
		if got, leased, err := pay(payment{"1", "a", "12", ""}); got != "paid 1" || !leased || err != nil || told != 0 {
			t.Errorf("%s: got %q, leased %v, %v, told %d times", name, got, leased, err, told)
		}
		for _, c := range []struct {
			again payment
			same  bool
		}{
			{payment{"1", "a", "12", ""}, true},
			{payment{"1", "a", "12", "again"}, name != whole},
			{payment{"1", "a1", "2", ""}, name == alone},
			{payment{"1", "a", "", ""}, name == alone},
		} {
			before := told
			got, _, err := pay(c.again)
			if c.same && (got != "again: paid 1" || err != nil || told != before+1) ||
				!c.same && (!errors.Is(err, guard.ErrOtherPayload) || told != before) {
				t.Errorf("%s: %v got %q, %v, told %d times", name, c.again, got, err, told-before)
			}
		}
		if got, _, err := pay(payment{"2", "a", "12", ""}); got != "paid 2" || err != nil {
			t.Errorf("%s: another key got %q, %v", name, got, err)
		}
	}
}

// The answer of one method is none of another, whatever makes calls the same.
func TestNoMethodGetsTheAnswerOfAnother(t *testing.T) {
	g := guardtest.New(t).Guard
	for name, o := range map[string]rpcopt.IdempotentOption{
		"values": rpcopt.WithFingerprint(of(account)),
		"alone":  rpcopt.WithoutFingerprint(),
	} {
		order := payment{id: name, account: "a"}
		if _, _, err := calls(t, g, "/shop.Bank/Pay", o, rpcopt.WithIdempotencyKey(of(id)))(order); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, _, err := calls(t, g, "/shop.Bank/Refund", o, rpcopt.WithIdempotencyKey(of(id)))(order)
		if !errors.Is(err, guard.ErrOtherPayload) {
			t.Errorf("%s: got %q, %v, want ErrOtherPayload", name, got, err)
		}
	}
}

func TestACallWithoutAKey(t *testing.T) {
	for _, optional := range []bool{false, true} {
		opts := []rpcopt.IdempotentOption{rpcopt.WithIdempotencyKey(of(id))}
		if optional {
			opts = append(opts, rpcopt.WithOptionalKey())
		}
		pay := pay(t, opts...)
		for range 2 {
			got, leased, err := pay(payment{account: "a"})
			at := (*keyfunc.Error)(nil)
			blamed := errors.As(err, &at) && at.Source == "idempotency" && errors.Is(err, keyfunc.ErrMissing)
			if optional && (!strings.HasPrefix(got, "paid") || leased || err != nil) || !optional && !blamed {
				t.Errorf("optional %v: got %q, leased %v, %v", optional, got, leased, err)
			}
		}
		if _, _, err := pay(payment{id: strings.Repeat("k", 256)}); !errors.Is(err, keyfunc.ErrInvalid) {
			t.Errorf("a long key got %v", err)
		}
		if _, _, err := pay("text"); !errors.Is(err, keyfunc.ErrNoSource) {
			t.Errorf("a message of another type got %v", err)
		}
	}
}

// With WithAtMostOnce the next call runs only if the handler has said that it
// has done nothing. Otherwise the log says once what to forget.
func TestAHandlerSaysThatItHasDoneNothing(t *testing.T) {
	refused := errors.New("connection refused")
	for name, row := range map[string]struct {
		own  error
		runs int
	}{
		"nothing done": {guard.NothingDone(refused), 3},
		"who knows":    {refused, 1},
	} {
		var text strings.Builder
		g := guardtest.New(t).With(guard.WithAtMostOnce(), guard.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
		r := rpcguard.NewIdempotent(g, "/shop.Bank/Pay", func(context.Context) (string, error) { return "ann", nil },
			time.Hour, rpcguard.Answers{
				Record: func(context.Context, any, error) ([]byte, error) { return nil, rpcguard.ErrNotForKeeping },
				Error:  func(_ context.Context, _ *rpcguard.Rule, err error) error { return err },
			}, settings(rpcopt.WithIdempotencyKey(of(id)), rpcopt.WithoutFingerprint()))
		runs := 0
		for range 3 {
			_, err := r.Serve(t.Context(), g, payment{id: "k"}, func(context.Context) (any, error) {
				runs++
				return nil, row.own
			})
			if !errors.Is(err, refused) && !errors.Is(err, guard.ErrInterrupted) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		const line = "guardctl forget\" guard=guard method=/shop.Bank/Pay key=idempotent:ann:k\n"
		lines := strings.Count(text.String(), line)
		if runs != row.runs || (lines == 1) != (row.runs == 1) {
			t.Errorf("%s: %d runs, want %d; %d lines:\n%s", name, runs, row.runs, lines, &text)
		}
	}
}

// Something between an Idempotent and a lock may try again. What the lock has
// refused before says nothing of a handler that has run.
func TestAHandlerThatRunsAfterARefusalHasDoneSomething(t *testing.T) {
	g := guardtest.New(t).With(guard.WithAtMostOnce(), guard.WithMaxWait(0))
	declined := errors.New("declined")
	once := rpcguard.NewIdempotent(g, "/shop.Bank/Pay", func(context.Context) (string, error) { return "ann", nil },
		time.Hour, rpcguard.Answers{
			Record: func(context.Context, any, error) ([]byte, error) { return nil, rpcguard.ErrNotForKeeping },
			Error:  func(_ context.Context, _ *rpcguard.Rule, err error) error { return err },
		}, settings(rpcopt.WithIdempotencyKey(of(id)), rpcopt.WithoutFingerprint()))
	lock := rpcguard.New(g, "/shop.Bank/Pay", of(func(payment) string { return "account" }))
	runs := 0
	handler := func(context.Context) (any, error) {
		runs++
		return nil, declined
	}
	for range 2 {
		_, err := once.Serve(t.Context(), g, payment{id: "k"}, func(ctx context.Context) (any, error) {
			err := g.Do(t.Context(), "account", func(context.Context) error {
				_, err := rpcguard.Run(ctx, g, lock, payment{}, handler)
				return err
			})
			if !errors.Is(err, guard.ErrNotAcquired) {
				t.Errorf("got %v", err)
			}
			return rpcguard.Run(ctx, g, lock, payment{}, handler)
		})
		if !errors.Is(err, declined) && !errors.Is(err, guard.ErrInterrupted) {
			t.Errorf("got %v", err)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestOptionsThatCannotWorkPanic(t *testing.T) {
	for name, construct := range map[string]func(){
		"no key":       func() { rpcopt.WithIdempotencyKey[payment](nil) },
		"no values":    func() { rpcopt.WithFingerprint[payment]() },
		"a nil value":  func() { rpcopt.WithFingerprint[payment](nil) },
		"no hook":      func() { rpcopt.WithReplayHook(nil) },
		"a nil option": func() { pay(t, nil) },
	} {
		testguard.Panics(t, name, construct)
	}
}
