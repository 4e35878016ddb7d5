package redistest

import (
	"testing"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// StartSentinel starts a primary, two replicas and three sentinels. They end
// with t.
func StartSentinel(t testing.TB, args ...string) *redisproc.Sentinel {
	t.Helper()
	s, err := Lab(t).StartSentinel(args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// StartCluster starts a cluster of three primaries without replicas. It needs
// Redis 7 or newer. The cluster ends with t.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	c, err := Lab(t).StartCluster(false)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, c.Nodes)
}

// StartReplicatedCluster starts a cluster of three primaries with one replica
// each. It needs Redis 7 or newer. The cluster ends with t.
func StartReplicatedCluster(t testing.TB, args ...string) *redisproc.Cluster {
	t.Helper()
	c, err := Lab(t).StartCluster(true, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wrap(t testing.TB, procs []*redisproc.Server) []*Server {
	t.Helper()
	servers := make([]*Server, len(procs))
	for i, p := range procs {
		servers[i] = &Server{p, t}
	}
	return servers
}
