package zookeeperlocker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingQuorum    = "quorum"                   // the number of servers is even
	FindingRights    = "rights"                   // the user may not read or write the nodes
	FindingRoundTrip = rowlocker.FindingRoundTrip // a write takes too long for the TTL
	FindingVersion   = "version"                  // ZooKeeper is too old
)

var findings = []string{FindingQuorum, FindingRights, FindingRoundTrip, FindingVersion}

// Check returns the findings about ZooKeeper.
func (r *rows) Check(ctx context.Context, _, _ time.Duration, failed error) error {
	if failed == nil { // reading is a right of its own
		_, err := r.children(ctx, r.root+"/k")
		failed = tryError(err)
	}
	switch {
	case lacksRights(failed):
		return &locker.Finding{Name: FindingRights, Severity: locker.Refuse, Text: failed.Error()}
	case failed != nil:
		return failed
	}
	n, err := r.get(ctx, "/zookeeper/config", false)
	if err != nil {
		return nil //nolint:nilerr // it may be forbidden, and the probe has had an answer
	}
	return judge(n)
}

// judge returns findings about a list with lines such as
// server.1=a:2888:3888:participant;2181. A server that stands alone has an
// empty one, and a server before 3.5 none. An even number of servers makes
// ZooKeeper no stronger.
func judge(list node) error {
	if list.stat == nil {
		return lockerkit.Finding(store, FindingVersion, locker.Refuse,
			"the server has no list of servers: upgrade to ZooKeeper 3.5.5 or newer")
	}
	voters := 0
	for line := range strings.Lines(string(list.value)) {
		name, value, _ := strings.Cut(line, "=")
		id, ok := strings.CutPrefix(name, "server.")
		if _, err := strconv.Atoi(id); ok && err == nil && !strings.Contains(value, ":observer") {
			voters++
		}
	}
	if voters == 0 || voters%2 != 0 {
		return nil
	}
	return lockerkit.Finding(store, FindingQuorum, locker.Warn,
		"ZooKeeper has %d servers that vote, which survive no more losses than %d: add one or remove one",
		voters, voters-1)
}
