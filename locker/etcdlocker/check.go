package etcdlocker

import (
	"context"
	"errors"
	"go/version"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Names of the findings of [Locker.Check], see guard.WithAcceptedFindings.
const (
	FindingCompaction = "compaction"               // etcd keeps old revisions, and will run out of space
	FindingQuorum     = "quorum"                   // a member does not answer, or the number of members is even
	FindingRights     = "rights"                   // the user may not read or write the keys
	FindingRoundTrip  = rowlocker.FindingRoundTrip // a write takes too long for the TTL
	FindingSpace      = "space"                    // etcd is full, or nearly so
	FindingStatus     = "status"                   // the user may not see space, version and members
	FindingVersion    = "version"                  // etcd is too old
)

var findings = []string{
	FindingCompaction, FindingQuorum, FindingRights, FindingRoundTrip, FindingSpace, FindingStatus, FindingVersion,
}

const (
	// keptMax is how many revisions etcd may keep before Check warns. At 300
	// bytes a pair they are some 150 MB.
	keptMax = 1_000_000
	// fullShare is the part of the quota above which Check warns.
	fullShare = 0.8
)

// Check reports whether etcd can serve leases of ttl now. Check takes and
// releases a key that nobody uses, measures that, and asks each endpoint of the
// clients for its state. Check leaves nothing behind.
//
// The error holds everything that is wrong, each as a [locker.Finding] with one
// of the names above. With authentication, etcd tells its state to a user with
// the role root only. The finding FindingStatus, a warning, says so.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error { return l.base.Check(ctx, ttl) }

// Check returns what is wrong but the pace, which the Locker judges.
func (r *rows) Check(ctx context.Context, _, _ time.Duration, failed error) error {
	var answer rpctypes.EtcdError
	switch errors.As(failed, &answer); {
	case errors.Is(failed, rpctypes.ErrNoSpace):
		return finding(FindingSpace, locker.Refuse, "%v", withAdvice(answer))
	case lacksRights(failed):
		return finding(FindingRights, locker.Refuse, "%v", withAdvice(answer))
	case failed != nil:
		return failed
	}
	found := []error{r.checkCompaction(ctx)}
	seen := map[string]bool{}
	for _, c := range r.members {
		for _, endpoint := range c.Endpoints() {
			if !seen[endpoint] {
				seen[endpoint] = true
				found = append(found, checkMember(ctx, c, endpoint))
			}
		}
	}
	return errors.Join(append(found, r.checkMembers(ctx))...)
}

func finding(name string, severity locker.Severity, format string, args ...any) error {
	return lockerkit.Finding(store, name, severity, format, args...)
}

// checkCompaction asks for a revision that a server with any compaction has
// forgotten.
func (r *rows) checkCompaction(ctx context.Context) error {
	now, err := r.client().Get(ctx, r.pulseKey(""))
	if err == nil && now.Header.Revision <= keptMax {
		return nil
	}
	if err == nil {
		_, err = r.client().Get(ctx, r.pulseKey(""), clientv3.WithRev(now.Header.Revision-keptMax))
	}
	return r.judgeCompaction(err)
}

func (r *rows) judgeCompaction(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil
	case err != nil:
		return r.unclear(err)
	}
	return finding(FindingCompaction, locker.Warn, "etcd keeps more than %d old revisions and will run out of space: "+
		"set --auto-compaction-retention=1h on each member", keptMax)
}

// checkMember asks one member for its state.
func checkMember(ctx context.Context, c *clientv3.Client, endpoint string) error {
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
	if older(s.Version, "3.5.3") {
		found = append(found, finding(FindingVersion, locker.Refuse,
			"the member at %s is etcd %s, which may lose data in a crash: upgrade to 3.5.3 or newer",
			endpoint, s.Version))
	}
	return errors.Join(found...)
}

// older reports whether a version such as 3.5.2 or 3.6.0-rc.1 comes before
// than. One that cannot be read does not. Versions of etcd are in the order of
// Go's.
func older(v, than string) bool {
	v, _, _ = strings.Cut("go"+v, "-")
	return version.IsValid(v) && version.Compare(v, "go"+than) < 0
}

// checkMembers warns of a cluster in which more members make it weaker.
func (r *rows) checkMembers(ctx context.Context) error {
	list, err := r.client().MemberList(ctx)
	if err != nil {
		return nil //nolint:nilerr // a right that is missing was told by checkMember, and probe has had an answer
	}
	voters := 0
	for _, m := range list.Members {
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
