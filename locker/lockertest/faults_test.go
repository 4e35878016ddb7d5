package lockertest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// memory is a sound locker. Lockers with a fault embed it.
type memory struct {
	*memlocker.Locker

	all *ledger
}

// ledger is what the two lockers of a faulty pair know of each other.
type ledger struct {
	mu     sync.Mutex
	queued []again
	tries  locker.Place
	kept   map[string]time.Time // until when a free key is kept for the claim that waits

	waiting []*locker.Claim // queued at any time
	lowest  int             // limit above 1

	releasing int             // Releases under way
	meanwhile []*locker.Claim // queued during one

	crowd []*locker.Claim // that acquired a share

	before map[string]before // by key

	deaf atomic.Bool // a message is lost

	marks sync.Map // of marked: the last one of each key
}

// again looks for a claim in the queue again.
type again struct {
	owner string
	look  func()
}

// again keeps the last look of each owner. It needs a.mu.
func (a *ledger) again(owner string, look func()) {
	i := slices.IndexFunc(a.queued, func(w again) bool { return w.owner == owner })
	if i < 0 {
		a.queued = append(a.queued, again{owner, look})
		return
	}
	a.queued[i].look = look
}

// find returns what a stranger finds that wants key. It leaves no trace.
func (m memory) find(key string) locker.Answer {
	probe := &locker.Claim{Key: key, Owner: "a probe, 22 bytes long", TTL: time.Second}
	a, err := m.Locker.Acquire(context.Background(), probe, locker.Try{})
	if err == nil && a.Acquired {
		m.Lose(key)
	}
	return a
}

// renewed renews c and reports whether it owns its key.
func (m memory) renewed(c *locker.Claim) (owns bool) {
	m.Locker.Renew(context.Background(), []*locker.Claim{c}, func(_ int, err error) { owns = err == nil })
	return owns
}

// fault is one way to break a promise, with the checks that must see it.
type fault struct {
	name     string
	caughtBy []string
	plant    func(m memory) locker.Locker
}

// tries reports whether a check is to be tried on the fault. The short form
// tries those alone that must see it.
func (f fault) tries(check string) bool {
	return testsize.Pick(true, slices.Contains(f.caughtBy, check))
}

var faults = slices.Concat(ownershipFaults, wakingFaults, queueFaults, inspectionFaults, momentFaults, sharingFaults,
	severalFaults, recordingFaults, markingFaults, listeningFaults)

var ownershipFaults = []fault{
	{
		"excludes nobody",
		[]string{
			"a key has one owner", "one contender at a time passes",
			"everybody who waits is served, one at a time",
		},
		func(m memory) locker.Locker { return excludesNobody{m} },
	},
	{
		"compares owners by all but the last byte",
		[]string{"a key has one owner", "a release compares the owner", "a renewal compares the owner"},
		func(m memory) locker.Locker { return cutsOwner(m) },
	},
	{
		"lets no lease expire",
		[]string{"a lease expires at its TTL and not before"},
		func(m memory) locker.Locker { return changesTTL(m, 1000) },
	},
	{
		"lets a lease expire early",
		[]string{"a lease expires at its TTL and not before", "a renewal gives the full TTL again"},
		func(m memory) locker.Locker { return changesTTL(m, 0.9) },
	},
	{
		"takes who asks for the holder",
		[]string{"a refusal tells who holds the key and how long"},
		func(m memory) locker.Locker { return mistakesHolder{m} },
	},
	{
		"is not idempotent in Acquire",
		[]string{"an owner that acquires again has the full TTL again"},
		func(m memory) locker.Locker { return acquiresOnce{m} },
	},
	{
		"does not prolong when it acquires again",
		[]string{
			"an owner that acquires again has the full TTL again", "a lost message costs the next look only",
			"a lost message of a share costs the next look only",
		},
		func(m memory) locker.Locker { return keepsOldTTL{m} },
	},
	{
		"makes no difference between upper and lower case",
		[]string{"keys are never mixed up"},
		func(m memory) locker.Locker { return changesKey(m, strings.ToLower) },
	},
	{
		"trims spaces",
		[]string{"keys are never mixed up"},
		func(m memory) locker.Locker { return changesKey(m, strings.TrimSpace) },
	},
	{
		"unescapes a key until there is nothing to unescape",
		[]string{"keys are never mixed up"},
		func(m memory) locker.Locker { return changesKey(m, unescape) },
	},
	{
		"keeps all but the last byte of the longest keys",
		[]string{"keys are never mixed up"},
		func(m memory) locker.Locker { return changesKey(m, cutLong) },
	},
	{
		"repairs invalid UTF-8",
		[]string{"keys are never mixed up"},
		func(m memory) locker.Locker { return changesKey(m, repair) },
	},
	{
		"does not renew, but says so",
		[]string{"a renewal gives the full TTL again", "each claim has its own answer from one renewal"},
		func(m memory) locker.Locker { return renewsNothing{m} },
	},
	{
		"re-creates a key in Renew",
		[]string{"a renewal never creates a key"},
		func(m memory) locker.Locker { return recreates{m} },
	},
	{
		"forgets the owner check in Renew",
		[]string{"a renewal compares the owner", "each claim has its own answer from one renewal"},
		func(m memory) locker.Locker { return renewsForAnybody{m} },
	},
	{
		"answers for the first of the claims only",
		[]string{"each claim has its own answer from one renewal"},
		func(m memory) locker.Locker { return answersForOne{m} },
	},
	{
		"gives up a renewal at the first lost claim",
		[]string{"each claim has its own answer from one renewal"},
		func(m memory) locker.Locker { return stopsAtLost{m} },
	},
	{
		"forgets the owner check in Release",
		[]string{
			"a release compares the owner", "a release after expiry leaves the new owner alone",
			"a key is released once",
		},
		func(m memory) locker.Locker { return releasesForAnybody{m} },
	},
	{
		"takes a lost lease for a released one",
		[]string{"a release after expiry leaves the new owner alone", "a key is released once"},
		func(m memory) locker.Locker { return hidesLoss{m} },
	},
	{
		"leaves all of a claim that is given up",
		[]string{
			"a claim that was given up leaves nothing behind",
			"who is given up is not granted", "what was granted to who is given up goes on",
			"who leaves the queue lets in those behind",
		},
		func(m memory) locker.Locker {
			return givesUp{m, func(context.Context, *locker.Claim, locker.End) (locker.Released, error) {
				return locker.Released{}, locker.ErrLeaseLost
			}}
		},
	},
	{
		"frees the key of others with a claim that is given up",
		[]string{
			"a claim that was given up leaves others alone",
			"a release that comes twice takes nothing from the next owner",
		},
		func(m memory) locker.Locker {
			return givesUp{m, func(_ context.Context, c *locker.Claim, _ locker.End) (locker.Released, error) {
				m.Lose(c.Key)
				return locker.Released{}, nil
			}}
		},
	},
	{
		"gives the same token always",
		[]string{
			"fencing tokens rise from grant to grant", "fencing tokens rise from hand-over to hand-over",
			"permits have tokens of their own, and shared claims have none",
		},
		func(m memory) locker.Locker { return changesToken{m, constant} },
	},
	{
		"reserves a single token",
		[]string{"fencing tokens rise from grant to grant", "blocks of fencing tokens do not overlap"},
		func(m memory) locker.Locker { return changesToken{m, single} },
	},
	{
		"forgets the owner check in Fence",
		[]string{"only the owner gets fencing tokens"},
		func(m memory) locker.Locker { return fencesForAnybody{m} },
	},
	{
		"ignores ctx",
		[]string{"a call ends when its ctx has ended, and tells no lie"},
		func(m memory) locker.Locker { return ignoresContext{m} },
	},
	{
		"takes an ended ctx for a lost lease",
		[]string{"a call ends when its ctx has ended, and tells no lie"},
		func(m memory) locker.Locker { return liesAboutContext{m} },
	},
	{
		"fails Check",
		[]string{"a healthy store passes Check"},
		func(m memory) locker.Locker { return unhealthy{m} },
	},
	{
		"answers twice",
		[]string{"each claim has its own answer from one renewal", "everybody who waits is served, one at a time"},
		func(m memory) locker.Locker { return answersTwice{m} },
	},
	{
		"gives token 0",
		[]string{"fencing tokens rise from grant to grant"},
		func(m memory) locker.Locker { return changesToken{m, func() uint64 { return 0 }} },
	},
	{
		"can be opened twice",
		[]string{"a locker is opened once"},
		func(m memory) locker.Locker { return opensTwice{m} },
	},
	{
		"works on after Close",
		[]string{"a closed locker answers ErrClosed"},
		func(m memory) locker.Locker { return neverCloses{m} },
	},
	{
		"cannot be closed twice",
		[]string{"a closed locker answers ErrClosed"},
		func(m memory) locker.Locker { return &closesOnce{memory: m} },
	},
}
