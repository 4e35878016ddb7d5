package lockertest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// memory is a sound locker, to be embedded in one with a fault.
type memory struct{ *memlocker.Locker }

// holder returns a refusal if key is held, else nil.
func (m memory) holder(key string) *guard.HeldError {
	var held *guard.HeldError
	probe := &guard.Claim{Key: key, Owner: "a probe, 22 bytes long", TTL: time.Second}
	if _, err := m.Locker.Acquire(context.Background(), probe); !errors.As(err, &held) {
		_, _ = m.Release(context.Background(), probe)
	}
	return held
}

// fault is one way to break a promise, and the checks that must see it.
type fault struct {
	name     string
	caughtBy []string
	plant    func(m memory) guard.Locker
}

var faults = []fault{
	{
		"excludes nobody",
		[]string{"a key has one owner", "one contender at a time passes"},
		func(m memory) guard.Locker { return excludesNobody{m} },
	},
	{
		"compares owners by all but the last byte",
		[]string{"a key has one owner", "a release compares the owner", "a renewal compares the owner"},
		func(m memory) guard.Locker { return cutsOwner{m} },
	},
	{
		"lets no lease expire",
		[]string{"a lease expires at its TTL and not before"},
		func(m memory) guard.Locker { return changesTTL{m, 1000} },
	},
	{
		"lets a lease expire early",
		[]string{"a lease expires at its TTL and not before", "a renewal gives the full TTL again"},
		func(m memory) guard.Locker { return changesTTL{m, 0.9} },
	},
	{
		"does not know the holder",
		[]string{"a refusal tells who holds the key and how long"},
		func(m memory) guard.Locker { return forgetsHolder{m} },
	},
	{
		"is not idempotent in Acquire",
		[]string{"an owner that acquires again has the full TTL again"},
		func(m memory) guard.Locker { return acquiresOnce{m} },
	},
	{
		"does not prolong when it acquires again",
		[]string{"an owner that acquires again has the full TTL again"},
		func(m memory) guard.Locker { return keepsOldTTL{m} },
	},
	{
		"cuts keys at a NUL",
		[]string{"keys are never mixed up"},
		func(m memory) guard.Locker { return changesKey{m, cutAtNUL} },
	},
	{
		"takes braces for a hash tag",
		[]string{"keys are never mixed up"},
		func(m memory) guard.Locker { return changesKey{m, hashTag} },
	},
	{
		"keeps the first 256 bytes of a key",
		[]string{"keys are never mixed up"},
		func(m memory) guard.Locker { return changesKey{m, cutLong} },
	},
	{
		"repairs invalid UTF-8",
		[]string{"keys are never mixed up"},
		func(m memory) guard.Locker { return changesKey{m, repair} },
	},
	{
		"does not renew, but says so",
		[]string{"a renewal gives the full TTL again", "each claim has its own answer from one renewal"},
		func(m memory) guard.Locker { return renewsNothing{m} },
	},
	{
		"re-creates a key in Renew",
		[]string{"a renewal never creates a key"},
		func(m memory) guard.Locker { return recreates{m} },
	},
	{
		"forgets the owner check in Renew",
		[]string{"a renewal compares the owner", "each claim has its own answer from one renewal"},
		func(m memory) guard.Locker { return renewsForAnybody{m} },
	},
	{
		"gives up a renewal at the first lost claim",
		[]string{"each claim has its own answer from one renewal"},
		func(m memory) guard.Locker { return stopsAtLost{m} },
	},
	{
		"forgets the owner check in Release",
		[]string{"a release compares the owner", "a release after expiry leaves the new owner alone", "a key is released once"},
		func(m memory) guard.Locker { return releasesForAnybody{m} },
	},
	{
		"takes a lost lease for a released one",
		[]string{"a release after expiry leaves the new owner alone", "a key is released once"},
		func(m memory) guard.Locker { return hidesLoss{m} },
	},
	{
		"does not count waiters",
		[]string{"a release tells that others wait"},
		func(m memory) guard.Locker { return countsNobody{m} },
	},
	{
		"does nothing in Abandon",
		[]string{"an abandoned claim leaves nothing behind", "an abandoned claim that arrives late is freed too"},
		func(m memory) guard.Locker { return abandonsNothing{m} },
	},
	{
		"frees an abandoned claim only once",
		[]string{"an abandoned claim that arrives late is freed too"},
		func(m memory) guard.Locker { return abandonsOnce{m} },
	},
	{
		"waits in Abandon",
		[]string{"an abandoned claim leaves nothing behind"},
		func(m memory) guard.Locker { return waitsInAbandon{m} },
	},
	{
		"frees the key of others in Abandon",
		[]string{"an abandoned claim leaves others alone"},
		func(m memory) guard.Locker { return abandonsOthers{m} },
	},
	{
		"gives the same token always",
		[]string{"fencing tokens rise from grant to grant"},
		func(m memory) guard.Locker { return &changesToken{memory: m, change: constant} },
	},
	{
		"reserves a single token",
		[]string{"fencing tokens rise from grant to grant", "blocks of fencing tokens do not overlap"},
		func(m memory) guard.Locker { return &changesToken{memory: m, change: single} },
	},
	{
		"forgets the owner check in Fence",
		[]string{"only the owner gets fencing tokens"},
		func(m memory) guard.Locker { return fencesForAnybody{m} },
	},
	{
		"ignores ctx",
		[]string{"a call ends when its ctx has ended, and tells no lie"},
		func(m memory) guard.Locker { return ignoresContext{m} },
	},
	{
		"takes an ended ctx for a lost lease",
		[]string{"a call ends when its ctx has ended, and tells no lie"},
		func(m memory) guard.Locker { return liesAboutContext{m} },
	},
	{
		"fails Check",
		[]string{"a healthy store passes Check"},
		func(m memory) guard.Locker { return unhealthy{m} },
	},
	{
		"can be opened twice",
		[]string{"a locker is opened once"},
		func(m memory) guard.Locker { return opensTwice{m} },
	},
	{
		"works on after Close",
		[]string{"a closed locker answers ErrClosed"},
		func(m memory) guard.Locker { return neverCloses{m} },
	},
	{
		"cannot be closed twice",
		[]string{"a closed locker answers ErrClosed"},
		func(m memory) guard.Locker { return &closesOnce{memory: m} },
	},
}

type excludesNobody struct{ memory }

func (l excludesNobody) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	l.Lose(c.Key)
	return l.memory.Acquire(ctx, c)
}

type cutsOwner struct{ memory }

func (l cutsOwner) cut(c *guard.Claim) *guard.Claim {
	d := *c
	d.Owner = d.Owner[:guard.OwnerLen-1]
	return &d
}

func (l cutsOwner) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	return l.memory.Acquire(ctx, l.cut(c))
}

func (l cutsOwner) Renew(ctx context.Context, cs []*guard.Claim) []error {
	var cut []*guard.Claim
	for _, c := range cs {
		cut = append(cut, l.cut(c))
	}
	return l.memory.Renew(ctx, cut)
}

func (l cutsOwner) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	return l.memory.Release(ctx, l.cut(c))
}

type changesTTL struct {
	memory
	factor float64
}

func (l changesTTL) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	return l.memory.Acquire(ctx, l.change(c))
}

func (l changesTTL) Renew(ctx context.Context, cs []*guard.Claim) []error {
	var changed []*guard.Claim
	for _, c := range cs {
		changed = append(changed, l.change(c))
	}
	return l.memory.Renew(ctx, changed)
}

func (l changesTTL) change(c *guard.Claim) *guard.Claim {
	d := *c
	d.TTL = time.Duration(float64(c.TTL) * l.factor)
	return &d
}

type forgetsHolder struct{ memory }

func (l forgetsHolder) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	token, err := l.memory.Acquire(ctx, c)
	if held := (*guard.HeldError)(nil); errors.As(err, &held) {
		return 0, &guard.HeldError{Key: held.Key, Remaining: held.Remaining}
	}
	return token, err
}

type acquiresOnce struct{ memory }

func (l acquiresOnce) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	if held := l.holder(c.Key); held != nil {
		return 0, held
	}
	return l.memory.Acquire(ctx, c)
}

type keepsOldTTL struct{ memory }

func (l keepsOldTTL) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	held := l.holder(c.Key)
	token, err := l.memory.Acquire(ctx, c)
	if err == nil && held != nil {
		d := *c
		d.TTL = held.Remaining
		_, err = l.memory.Acquire(ctx, &d)
	}
	return token, err
}

type changesKey struct {
	memory
	change func(string) string
}

func cutAtNUL(key string) string { return key[:strings.IndexByte(key+"\x00", 0)] }
func cutLong(key string) string  { return key[:min(len(key), 256)] }
func repair(key string) string   { return strings.ToValidUTF8(key, "\ufffd") }

func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func (l changesKey) changed(c *guard.Claim) *guard.Claim {
	d := *c
	d.Key = l.change(c.Key)
	return &d
}

func (l changesKey) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	return l.memory.Acquire(ctx, l.changed(c))
}

func (l changesKey) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	return l.memory.Release(ctx, l.changed(c))
}

type renewsNothing struct{ memory }

func (l renewsNothing) Renew(_ context.Context, cs []*guard.Claim) []error {
	return make([]error, len(cs))
}

type recreates struct{ memory }

func (l recreates) Renew(ctx context.Context, cs []*guard.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		if _, err := l.memory.Acquire(ctx, c); err != nil {
			errs[i] = guard.ErrLeaseLost
		}
	}
	return errs
}

type renewsForAnybody struct{ memory }

func (l renewsForAnybody) Renew(ctx context.Context, cs []*guard.Claim) []error {
	errs := l.memory.Renew(ctx, cs)
	for i, c := range cs {
		if l.holder(c.Key) != nil {
			errs[i] = nil
		}
	}
	return errs
}

type stopsAtLost struct{ memory }

func (l stopsAtLost) Renew(ctx context.Context, cs []*guard.Claim) []error {
	errs := make([]error, len(cs))
	for i := range cs {
		if errs[i] = l.memory.Renew(ctx, cs[i:i+1])[0]; errs[i] != nil {
			for j := range errs[i:] {
				errs[i+j] = errs[i]
			}
			break
		}
	}
	return errs
}

type releasesForAnybody struct{ memory }

func (l releasesForAnybody) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	freed, err := l.memory.Release(ctx, c)
	l.Lose(c.Key)
	return freed, err
}

type hidesLoss struct{ memory }

func (l hidesLoss) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	freed, err := l.memory.Release(ctx, c)
	if errors.Is(err, guard.ErrLeaseLost) {
		err = nil
	}
	return freed, err
}

type countsNobody struct{ memory }

func (l countsNobody) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	_, err := l.memory.Release(ctx, c)
	return guard.Freed{}, err
}

type abandonsNothing struct{ memory }

func (l abandonsNothing) Abandon(*guard.Claim) {}

type abandonsOnce struct{ memory }

func (l abandonsOnce) Abandon(c *guard.Claim) {
	_, _ = l.Release(context.Background(), c)
}

type waitsInAbandon struct{ memory }

func (l waitsInAbandon) Abandon(c *guard.Claim) {
	time.Sleep(time.Second)
	l.memory.Abandon(c)
}

type abandonsOthers struct{ memory }

func (l abandonsOthers) Abandon(c *guard.Claim) { l.Lose(c.Key) }

type changesToken struct {
	memory
	change func() uint64
}

// given is shared by all lockers: the fault is in the tokens, not in who counts them.
var given atomic.Uint64

func constant() uint64 { return 7 }
func single() uint64   { return given.Add(1) }

func (l *changesToken) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	_, err := l.memory.Acquire(ctx, c)
	return l.change(), err
}

func (l *changesToken) Fence(ctx context.Context, c *guard.Claim) (uint64, error) {
	_, err := l.memory.Fence(ctx, c)
	return l.change(), err
}

type fencesForAnybody struct{ memory }

func (l fencesForAnybody) Fence(ctx context.Context, c *guard.Claim) (uint64, error) {
	token, err := l.memory.Fence(ctx, c)
	if errors.Is(err, guard.ErrLeaseLost) {
		return 1 << 60, nil
	}
	return token, err
}

type ignoresContext struct{ memory }

func (l ignoresContext) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	if ctx.Err() != nil {
		time.Sleep(10 * time.Second)
	}
	return l.memory.Acquire(ctx, c)
}

type liesAboutContext struct{ memory }

func (l liesAboutContext) Release(ctx context.Context, c *guard.Claim) (guard.Freed, error) {
	if ctx.Err() != nil {
		return guard.Freed{}, guard.ErrLeaseLost
	}
	return l.memory.Release(ctx, c)
}

type unhealthy struct{ memory }

func (l unhealthy) Check(context.Context, time.Duration) error { return guard.ErrUnavailable }

type opensTwice struct{ memory }

func (l opensTwice) Open(w guard.Waker) error {
	_ = l.memory.Open(w)
	return nil
}

type neverCloses struct{ memory }

func (l neverCloses) Close(context.Context) error { return nil }

type closesOnce struct {
	memory
	closed bool
}

func (l *closesOnce) Close(ctx context.Context) error {
	if l.closed {
		return guard.ErrClosed
	}
	l.closed = true
	return l.memory.Close(ctx)
}
