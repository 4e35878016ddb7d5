package redistest

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// StartCluster starts a cluster of three primaries without replicas, on Redis 7 or newer.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	nodes := make([]*Server, 3)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(freePort(t)))
		rdb := Client(t, nodes[i].Addr)
		ctx := t.Context()
		from, to := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		if err := rdb.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		port := nodes[0].Addr[strings.LastIndex(nodes[0].Addr, ":")+1:]
		if err := rdb.Do(ctx, "cluster", "meet", "127.0.0.1", port, clusterPort(t, nodes[0])).Err(); i > 0 && err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	for _, n := range nodes {
		n.awaitCluster(len(nodes))
	}
	return nodes
}

func clusterPort(t testing.TB, s *Server) string {
	t.Helper()
	v, err := Client(t, s.Addr).ConfigGet(t.Context(), "cluster-port").Result()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return v["cluster-port"]
}

// awaitCluster waits until the node knows all others and where all slots are.
func (s *Server) awaitCluster(size int) {
	s.t.Helper()
	rdb := Client(s.t, s.Addr)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		info := rdb.ClusterInfo(s.t.Context()).Val()
		if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:"+strconv.Itoa(size)) {
			return
		}
	}
	s.t.Fatal("redistest: the cluster does not come up")
}
