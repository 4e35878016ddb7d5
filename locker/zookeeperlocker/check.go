package zookeeperlocker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingQuorum    = "quorum"     // the number of servers is even
	FindingRights    = "rights"     // the user may not read or write the nodes
	FindingRoundTrip = "round-trip" // a write takes too long for the TTL
	FindingVersion   = "version"    // ZooKeeper is too old
)

// FindingNames implements [locker.FindingNamer].
func (*Locker) FindingNames() []string {
	return []string{FindingQuorum, FindingRights, FindingRoundTrip, FindingVersion}
}

// Check reports whether ZooKeeper can serve leases of ttl now. Check takes a
// key that nobody uses through a transaction, measures that, and reads the list
// of servers. Check leaves nothing behind but the nodes that all keys share.
//
// The error holds everything that is wrong, each as a [locker.Finding] with one
// of the names above.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.life.Leave()
	took, err := lockerkit.Pace(lockerkit.MaxPace(ttl), func() (time.Duration, error) { return l.probe(ctx) })
	switch {
	case lacksRights(err):
		return finding(FindingRights, locker.Refuse, "%v", withAdvice(err))
	case errors.Is(err, errOld):
		return finding(FindingVersion, locker.Refuse, "%v", err)
	case err != nil:
		return unclear(err)
	}
	return errors.Join(checkPace(took, ttl), l.checkServers(ctx))
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return &locker.Finding{Name: name, Severity: severity, Text: "zookeeperlocker: " + fmt.Sprintf(format, args...)}
}

var errOld = errors.New("the server knows no container nodes: upgrade to ZooKeeper 3.5.5 or newer")

// probe makes and deletes a key as a lock would. probe returns how long the
// write took.
func (l *Locker) probe(ctx context.Context) (took time.Duration, err error) {
	dir := l.dir("%check " + lockerkit.NewID()) // no caller's key has a '%' before a 'c' and an 'h'
	err = l.ensure(ctx, dir)
	if err != nil && strings.Contains(err.Error(), unimplemented) {
		return 0, errOld
	}
	if err != nil {
		return 0, err
	}
	sent := time.Now()
	r, err := l.multi(ctx, l.create(dir+ownerNode, nil, 0), write(dir, nil, anyVersion), remove(dir+ownerNode))
	took = time.Since(sent)
	switch {
	case err != nil:
		return 0, err
	case r.refused != nil:
		return 0, fmt.Errorf("a key that nobody else knows is held: %w", r.refused)
	}
	if _, err := l.children(ctx, dir); err != nil { // reading is a right of its own
		return 0, err
	}
	return took, l.delete(ctx, dir)
}

// unimplemented is how the client shows the answer to an unknown request.
const unimplemented = "-6"

func checkPace(took, ttl time.Duration) error {
	if took <= lockerkit.MaxPace(ttl) {
		return nil
	}
	return finding(FindingRoundTrip, locker.Refuse,
		"a write took %v, too long for a TTL of %v: choose a longer TTL, faster disks or nearer servers",
		took.Round(time.Millisecond), ttl)
}

// checkServers warns of servers that make ZooKeeper no stronger. A server that
// stands alone has no list.
func (l *Locker) checkServers(ctx context.Context) error {
	n, err := l.get(ctx, "/zookeeper/config")
	if err != nil {
		return nil //nolint:nilerr // it may be forbidden, and probe has had an answer
	}
	return judgeServers(string(n.value))
}

// judgeServers reads lines such as server.1=a:2888:3888:participant;2181.
func judgeServers(config string) error {
	voters := 0
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(line, "=")
		id, ok := strings.CutPrefix(name, "server.")
		if _, err := strconv.Atoi(id); ok && err == nil && !strings.Contains(value, ":observer") {
			voters++
		}
	}
	if voters == 0 || voters%2 != 0 {
		return nil
	}
	return finding(FindingQuorum, locker.Warn,
		"ZooKeeper has %d servers that vote, which survive no more losses than %d: add one or remove one",
		voters, voters-1)
}
