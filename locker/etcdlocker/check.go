package etcdlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingCompaction = "compaction" // etcd keeps old revisions, and will run out of space
	FindingQuorum     = "quorum"     // a member does not answer, or the number of members is even
	FindingRights     = "rights"     // the user may not read or write the keys
	FindingRoundTrip  = "round-trip" // a write takes too long for the TTL
	FindingSpace      = "space"      // etcd is full, or nearly so
	FindingStatus     = "status"     // the user may not see space, version and members
	FindingVersion    = "version"    // etcd is too old
)

// FindingNames implements [locker.FindingNamer].
func (*Locker) FindingNames() []string {
	return []string{
		FindingCompaction, FindingQuorum, FindingRights, FindingRoundTrip, FindingSpace, FindingStatus, FindingVersion,
	}
}

const (
	// keptMax is how many revisions etcd may keep before Check warns. At 300
	// bytes a pair they are some 150 MB.
	keptMax = 1_000_000
	// fullShare is the part of the quota above which Check warns.
	fullShare = 0.8
)

// Check reports whether etcd can serve leases of ttl now. Check takes a key
// that nobody uses through a transaction with a lease, measures that, and asks
// each endpoint of the clients for its state. Check leaves nothing behind.
//
// The error holds everything that is wrong, each as a [locker.Finding] with one
// of the names above. With authentication, etcd tells its state to a user with
// the role root only. The finding FindingStatus, a warning, says so.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	newest := int64(0)
	took, err := lockerkit.Pace(lockerkit.MaxPace(ttl), func() (took time.Duration, err error) {
		took, newest, err = l.probe(ctx)
		return took, err
	})
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return finding(FindingSpace, locker.Refuse, "%v", withAdvice(err))
	case lacksRights(err):
		return finding(FindingRights, locker.Refuse, "%v", withAdvice(err))
	case err != nil:
		return l.unclear(err)
	}
	found := []error{checkPace(took, ttl), l.checkCompaction(ctx, newest)}
	seen := map[string]bool{}
	for _, c := range l.members {
		for _, endpoint := range c.Endpoints() {
			if !seen[endpoint] {
				seen[endpoint] = true
				found = append(found, l.checkMember(ctx, c, endpoint))
			}
		}
	}
	return errors.Join(append(found, l.checkMembers(ctx))...)
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return &locker.Finding{Name: name, Severity: severity, Text: "etcdlocker: " + fmt.Sprintf(format, args...)}
}

// probe writes and deletes a key as a lock would, with a look at a queue. probe
// returns how long the write took, and the revision of etcd.
func (l *Locker) probe(ctx context.Context) (took time.Duration, revision int64, err error) {
	lease, err := l.placeLease(ctx)
	if err != nil {
		return 0, 0, err
	}
	key := "%check " + lockerkit.NewID() // no caller's key has a '%' before a 'c' and an 'h'
	lock, queue := l.lockKey(key), l.queueOf(key)
	sent := time.Now()
	r, err := l.txn(ctx, []clientv3.Cmp{absent(lock), none(queue, endOf(queue))},
		[]clientv3.Op{clientv3.OpPut(lock, "", clientv3.WithLease(lease)), prefixed(queue)},
		[]clientv3.Op{clientv3.OpGet(lock)})
	took = time.Since(sent)
	if err == nil && !r.Succeeded {
		err = errors.New("a key that nobody else knows is held")
	}
	if err != nil {
		return 0, 0, err
	}
	_, err = l.client().Delete(ctx, lock)
	return took, r.Header.Revision, err
}

func checkPace(took, ttl time.Duration) error {
	if took <= lockerkit.MaxPace(ttl) {
		return nil
	}
	return finding(FindingRoundTrip, locker.Refuse,
		"a write took %v, too long for a TTL of %v: choose a longer TTL, faster disks or nearer members",
		took.Round(time.Millisecond), ttl)
}

// checkCompaction asks for a revision that a server with any compaction has
// forgotten.
func (l *Locker) checkCompaction(ctx context.Context, newest int64) error {
	if newest <= keptMax {
		return nil
	}
	_, err := l.client().Get(ctx, l.inboxOf(l.instance), clientv3.WithRev(newest-keptMax))
	return l.judgeCompaction(err)
}

func (l *Locker) judgeCompaction(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil
	case err != nil:
		return l.unclear(err)
	}
	return finding(FindingCompaction, locker.Warn, "etcd keeps more than %d old revisions and will run out of space: "+
		"set --auto-compaction-retention=1h on each member", keptMax)
}

// checkMember asks one member for its state.
func (l *Locker) checkMember(ctx context.Context, c *clientv3.Client, endpoint string) error {
	s, err := c.Status(ctx, endpoint)
	switch {
	case lacksRights(err):
		return finding(FindingStatus, locker.Warn,
			"the user may not see the state of %s: space, version and members were not checked", endpoint)
	case err != nil:
		return finding(FindingQuorum, locker.Warn, "the member at %s gives no answer: %v", endpoint, err)
	}
	return judgeStatus(endpoint, s)
}

func judgeStatus(endpoint string, s *clientv3.StatusResponse) error {
	var found []error
	if s.Leader == 0 {
		found = append(found, finding(FindingQuorum, locker.Warn, "the member at %s knows no leader", endpoint))
	}
	if slices.ContainsFunc(s.Errors, func(e string) bool { return strings.Contains(e, "NOSPACE") }) {
		found = append(found, finding(FindingSpace, locker.Refuse, "%v", withAdvice(rpctypes.ErrNoSpace)))
	} else if full := float64(s.DbSize) / float64(s.DbSizeQuota); s.DbSizeQuota > 0 && full > fullShare {
		found = append(found, finding(FindingSpace, locker.Warn,
			"the database at %s has %.0f %% of its quota: compact and defragment it", endpoint, 100*full))
	}
	if olderThan(s.Version, 3, 5, 3) {
		found = append(found, finding(FindingVersion, locker.Refuse,
			"the member at %s is etcd %s, which may lose data in a crash: upgrade to 3.5.3 or newer",
			endpoint, s.Version))
	}
	return errors.Join(found...)
}

// olderThan compares versions such as 3.5.3 or 3.6.0-rc.1. One that cannot be
// read is not older.
func olderThan(version string, than ...int) bool {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(than) {
		return false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n != than[i] {
			return err == nil && n < than[i]
		}
	}
	return false
}

// checkMembers warns of a cluster in which more members make it weaker.
func (l *Locker) checkMembers(ctx context.Context) error {
	r, err := l.client().MemberList(ctx)
	if err != nil {
		return nil //nolint:nilerr // a right that is missing was told by checkMember, and probe has had an answer
	}
	voters := 0
	for _, m := range r.Members {
		if !m.IsLearner {
			voters++
		}
	}
	if voters%2 != 0 {
		return nil
	}
	return finding(FindingQuorum, locker.Warn, "etcd has %d members, which survive no more losses than %d: "+
		"add one or remove one", voters, voters-1)
}
