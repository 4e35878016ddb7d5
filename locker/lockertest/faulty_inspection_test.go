package lockertest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var inspectionFaults = []fault{
	{
		"shows who asks as the holder",
		[]string{"who holds a key can be seen"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Holder.PID++ }}
		},
	},
	{
		"shows a key as held that is free",
		[]string{"who holds a key can be seen"},
		func(m memory) locker.Locker { return shows{m, func(s *locker.KeyState) { s.Held = true }} },
	},
	{
		"shows the last who waits first",
		[]string{"who waits for a key can be seen, in order"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { slices.Reverse(s.Waiters) }}
		},
	},
	{
		"shows half of those who wait",
		[]string{"who waits for a key can be seen, in order"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Waiters = s.Waiters[:len(s.Waiters)/2] }}
		},
	},
	{
		"shows the length of a record with its owner id",
		[]string{"a record can be seen, and how long it lasts"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Record.Size += locker.OwnerLen }}
		},
	},
	{
		"shows no end of a record",
		[]string{"a record can be seen, and how long it lasts"},
		func(m memory) locker.Locker {
			return shows{m, func(s *locker.KeyState) { s.Record.Remaining = 0 }}
		},
	},
	{
		"lists all keys but one",
		[]string{"a list has every key that is held, and none that is not"},
		func(m memory) locker.Locker { return listsLess{m} },
	},
	{
		"lists a key that is free",
		[]string{"a list has every key that is held, and none that is not"},
		func(m memory) locker.Locker { return listsMore{m} },
	},
	{
		"lists nothing after Close, without an error",
		[]string{"a closed locker answers ErrClosed"},
		func(m memory) locker.Locker { return endsList{m} },
	},
	{
		"forces the release of any owner's key",
		[]string{"a forced release frees the key of its owner only"},
		func(m memory) locker.Locker { return forcesAny{m} },
	},
	{
		"does nothing when it forces a release",
		[]string{"a forced release frees the key of its owner only", "a forced release hands the key over"},
		func(m memory) locker.Locker { return forcesNone{m} },
	},
	{
		"forgets the queue when it forces a release",
		[]string{"a forced release hands the key over"},
		func(m memory) locker.Locker { return forcesAndForgets{m} },
	},
}

// shows is for faults in the answers of Inspect.
type shows struct {
	memory
	change func(s *locker.KeyState)
}

func (l shows) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	s, err := l.memory.Inspect(ctx, key)
	l.change(&s)
	return s, err
}

type listsLess struct{ memory }

func (l listsLess) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		first := true
		for s, err := range l.memory.List(ctx) {
			if !first && !yield(s, err) {
				return
			}
			first = false
		}
	}
}

type listsMore struct{ memory }

func (l listsMore) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if !yield(locker.KeyState{Key: "gone", Held: true}, nil) {
			return
		}
		l.memory.List(ctx)(yield)
	}
}

type endsList struct{ memory }

func (l endsList) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		for s, err := range l.memory.List(ctx) {
			if err != nil || !yield(s, nil) {
				return
			}
		}
	}
}

type forcesAny struct{ memory }

func (l forcesAny) ForceRelease(ctx context.Context, key, _ string) error {
	s, err := l.Inspect(ctx, key)
	if err != nil {
		return err
	}
	return l.memory.ForceRelease(ctx, key, s.Owner)
}

type forcesNone struct{ memory }

func (l forcesNone) ForceRelease(ctx context.Context, key, owner string) error {
	s, err := l.Inspect(ctx, key)
	if err != nil || s.Owner == owner {
		return err
	}
	return errors.Join(locker.ErrInvalidOption, locker.ErrLeaseLost)
}

type forcesAndForgets struct{ memory }

func (l forcesAndForgets) ForceRelease(ctx context.Context, key, owner string) error {
	s, err := l.Inspect(ctx, key)
	if err == nil && s.Owner == owner {
		l.Lose(key) // and with it the queue
		c := &locker.Claim{Key: key, Owner: "another, of 22 letters", TTL: time.Minute}
		_, err = l.Locker.Acquire(ctx, c, locker.Try{})
		return err
	}
	return l.memory.ForceRelease(ctx, key, owner)
}
