package redislocker

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// recorded is the entry that a process of this version has stored. A release
// with another version adds a file, and keeps this one: its processes and those
// of the version before work on the same keys while a service is deployed.
const recorded = "testdata/entry-1.txt"

// A change of what is stored needs a new version, because processes that run
// already read it.
func TestAnEntryIsStoredAsRecorded(t *testing.T) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	c := &locker.Claim{
		Key: "k", Owner: strings.Repeat("o", locker.OwnerLen), TTL: 10 * time.Second, Fencing: true,
		Holder: locker.Holder{
			Host: "host", PID: 7, Name: "stock", Traceparent: "00-ab-cd-01", Since: time.UnixMilli(1767225600123).UTC(),
		},
	}
	value, _ := (&describer{instance: strings.Repeat("i", locker.OwnerLen)}).describe(c)
	if got := entry(c, value, true) + "\n"; got != string(text) {
		t.Errorf("the entry is\n%swant as %s has it\n%s", got, recorded, text)
	}
}
