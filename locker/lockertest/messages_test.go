package lockertest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// The message is the only thing that tells the author of a store what is wrong.
func TestMessageTellsWhatWasSeen(t *testing.T) {
	for _, m := range []struct{ fault, check, says string }{
		{
			"tells nobody of a hand-over", "a release gives the key to who waits",
			"Granted was told for nobody; the key's owner is now claim 2 (of locker b)",
		},
		{"hands over nothing, and wakes nobody", "a release gives the key to who waits", "Handed:false"},
		{
			"hands over nothing, and wakes nobody", "a release gives the key to who waits",
			"the key's owner is now nobody",
		},
		{
			"hands on only what it owned", "a late release of a free key serves who waits",
			"Release by a claim whose TTL has ended",
		},
		{
			"hands on nothing of a claim that is given up", "what was granted to who is given up goes on",
			"a Release by an owner id alone",
		},
		{
			"leaves a claim that is given up in the queue", "who is given up is not granted",
			"Granted was told for claim 2 (of locker b)",
		},
		{
			"does not count who waits", "a release gives the key to who waits",
			"Released.Waiting is 0, want 1: the claim that gets the key counts",
		},
		{
			"tells a wrong count with a grant", "a release gives the key to who waits",
			"Granted tells that 77 wait, want 0",
		},
		{"answers twice", "everybody who waits is served, one at a time", "called answered 2 times"},
		{"gives token 0", "fencing tokens rise from grant to grant", "a token is never 0"},
		{"forgets places", "a waiter that comes again keeps its place", "came again with Try.Place"},
		{
			"cannot be closed twice", "a closed locker answers ErrClosed",
			"a second Close: guard: closed, want nil (it is idempotent)",
		},
		{
			"takes who asks for the holder", "a refusal tells who holds the key and how long",
			`Answer.Holder.Name is "lockertest: who asks", want "lockertest: {1}"`,
		},
		{"queues an owner id again", "an owner id is queued once", "(law 2)"},
	} {
		t.Run(m.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := test(m.fault, m.check); err == nil || !strings.Contains(err.Error(), m.says) {
					t.Errorf("%v, want %q in it", err, m.says)
				}
			})
		})
	}
}

// test runs one check on a pair with one fault.
func test(faulty, check string) error {
	for _, f := range faults {
		for _, c := range lockertest.Checks() {
			if f.name == faulty && c.Name == check {
				mem, all := memlocker.New(), new(ledger)
				return c.Test(f.plant(memory{mem, all}), f.plant(memory{mem.Peer(), all}))
			}
		}
	}
	return nil
}
