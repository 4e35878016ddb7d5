package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestNew_BadInputIsATypedErrorAndLeavesNothing(t *testing.T) {
	for name, o := range map[string]guard.Option{
		"TTL too short":        guard.WithTTL(99 * time.Millisecond),
		"TTL not whole ms":     guard.WithTTL(100*time.Millisecond + 1),
		"TTL too long":         guard.WithTTL(24*24*time.Hour + time.Millisecond),
		"TTL negative":         guard.WithTTL(-time.Second),
		"MaxWait negative":     guard.WithMaxWait(-1),
		"MaxWaiters negative":  guard.WithMaxWaiters(-1),
		"MaxHold negative":     guard.WithMaxHold(-1),
		"backoff zero":         guard.WithBackoff(0, time.Second),
		"backoff upside down":  guard.WithBackoff(time.Second, time.Millisecond),
		"MaxWait without unit": guard.WithMaxWait(3),
		"MaxHold without unit": guard.WithMaxHold(60),
		"MinHold without unit": guard.WithMinHold(time.Millisecond - 1),
		"Linger without unit":  guard.WithLinger(50),
		"backoff without unit": guard.WithBackoff(5, 250),
		"name empty":           guard.WithName(""),
		"observer nil":         guard.WithObserver(nil),
		"observer typed nil":   guard.WithObserver((*mishap)(nil)),
		"logger nil":           guard.WithLogger(nil),
		"codec nil":            guard.WithCodec(nil),
		"option nil":           nil,
		"fine, then a mistake": guard.WithTTL(0),
	} {
		t.Run(name, func(t *testing.T) {
			mem := memlocker.New()
			_, err := guard.New(mem, guard.WithMaxWait(0), o)
			wantErr(t, err, guard.ErrInvalidOption)
			newGuard(t, mem) // the failed New did not take the locker
			defer func() {
				if r, ok := recover().(error); !ok || !errors.Is(r, guard.ErrInvalidOption) {
					t.Errorf("With recovered %v", r)
				}
			}()
			newBench(t).With(o)
		})
	}
	for _, none := range []guard.Locker{nil, (*memlocker.Locker)(nil)} {
		_, err := guard.New(none)
		wantErr(t, err, guard.ErrInvalidOption)
	}
	_, err := guard.New(memlocker.New(), guard.WithTTL(1), guard.WithMaxWait(-1))
	if !strings.Contains(err.Error(), "TTL") || !strings.Contains(err.Error(), "MaxWait") {
		t.Errorf("%q does not name both mistakes", err)
	}

	longest := must(guard.New(memlocker.New(), guard.WithTTL(24*24*time.Hour)))
	wantErr(t, longest.Close(t.Context()), nil)

	b := newBench(t)
	_, err = guard.New(b.mem)
	wantErr(t, err, guard.ErrInvalidOption) // used twice
	wantErr(t, b.Do(t.Context(), "", nop), guard.ErrInvalidKey)
	wantErr(t, b.Do(t.Context(), guard.Key("stock", ""), nop), guard.ErrInvalidKey)
	wantErr(t, b.Do(t.Context(), fmt.Sprintf("stock:%v", nil), nop), guard.ErrInvalidKey)
	wantErr(t, b.Do(t.Context(), "stock:%!d(string=42)", nop), guard.ErrInvalidKey) // Sprintf("stock:%d", "42")
	wantErr(t, b.DoAll(t.Context(), []string{"a", "stock:%!s(MISSING)"}, nop), guard.ErrInvalidKey)
	wantErr(t, b.DoAll(t.Context(), nil, nop), guard.ErrInvalidKey)
	wantErr(t, b.DoAll(t.Context(), []string{"a", ""}, nop), guard.ErrInvalidKey)
	wantErr(t, b.Do(t.Context(), key, nil), guard.ErrInvalidOption)
	wantErr(t, b.DoAll(t.Context(), []string{key}, nil), guard.ErrInvalidOption)
	_, err = guard.Call[int](t.Context(), b.Guard, key, nil)
	wantErr(t, err, guard.ErrInvalidOption)
	_, err = guard.Wrap[int, int](b.Guard, nil, nil)(t.Context(), 1)
	wantErr(t, err, guard.ErrInvalidOption)
	if n := b.spy.acquires.Load(); n != 0 {
		t.Errorf("%d tries were sent", n)
	}
}

func TestDo_ANilContextIsATypedErrorInEveryVerb(t *testing.T) {
	var none context.Context
	b := newBench(t)
	_, acquired := b.Acquire(none, key)
	_, tried := b.TryAcquire(none, key)
	_, did := b.TryDo(none, key, nop)
	_, called := guard.Call(none, b.Guard, key, func(context.Context) (int, error) { return 0, nil })
	l := must(b.Acquire(t.Context(), key))
	_, found := b.Findings(none)
	_, inspected := b.Inspect(none, key)
	_, token := l.FencingToken(none)
	_, carried := guard.FencingToken(none)
	var listed error
	for _, err := range b.List(none) {
		listed = err
	}
	for verb, err := range map[string]error{
		"Close": b.Close(none), "Check": b.Check(none), "Findings": found, "Inspect": inspected, "List": listed,
		"ForceRelease": b.ForceRelease(none, key, "A"), "Lease.FencingToken": token, "FencingToken": carried,
		"Do": b.Do(none, key, nop), "DoAll": b.DoAll(none, []string{key}, nop), "Lead": b.Lead(none, key, nop),
		"Acquire": acquired, "TryAcquire": tried, "TryDo": did, "Call": called, "Release": l.Release(none),
	} {
		if !errors.Is(err, guard.ErrInvalidOption) || !strings.Contains(err.Error(), "ctx is nil") {
			t.Errorf("%s: %v, want ErrInvalidOption that names ctx", verb, err)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release with a ctx after that: %v", err)
	}
}

func TestSetDefault_ServesAGuardThatIsNil(t *testing.T) {
	defer guard.SetDefault(nil)
	var none *guard.Guard
	wantErr(t, guard.Do(t.Context(), key, nop), guard.ErrNoDefault)
	wantErr(t, none.Do(t.Context(), key, nop), guard.ErrNoDefault)
	wantErr(t, none.Close(t.Context()), guard.ErrNoDefault)
	late := none.With(guard.WithName("late")).With(guard.WithMaxWait(0)) // made before there is a default
	wantErr(t, late.Do(t.Context(), key, nop), guard.ErrNoDefault)

	b := newBench(t)
	guard.SetDefault(b.Guard)
	err := guard.Do(t.Context(), key, func(ctx context.Context) error {
		if err := none.Do(t.Context(), "2", nop); err != nil {
			t.Error(err)
		}
		wantErr(t, late.Do(t.Context(), key, nop), guard.ErrNotAcquired) // at once
		return late.Do(ctx, key, nop)                                    // inside: one family
	})
	if err != nil {
		t.Fatal(err)
	}
	var held *guard.HeldError
	l := must(late.Acquire(t.Context(), key))
	_, err = b.other.TryAcquire(t.Context(), key)
	if !errors.As(err, &held) || held.Holder.Name != "late" {
		t.Errorf("got %v, holder %+v", err, held)
	}
	_ = l.Release(t.Context())
}

func TestDo_ErrorsShownToClientsNameNeitherKeyNorHolder(t *testing.T) {
	b := newBench(t, guard.WithMaxWait(0), guard.WithName("secret-name"))
	l := must(b.other.Acquire(t.Context(), "secret-key"))
	err := b.Do(t.Context(), "secret-key", nop)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %q", err)
	}
	_ = l.Release(t.Context())
}
