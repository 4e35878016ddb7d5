package redislocker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestHotKeyIsBackASecondAfterAClusterFailsOver(t *testing.T) {
	t.Parallel()
	type row struct {
		name      string
		processes int
		lossless  bool
		fault     func(c *redisproc.Cluster, slot int) error
	}
	rows := []row{
		{"CLUSTER FAILOVER", 3, true, failover("")},
		{"CLUSTER FAILOVER FORCE, one process", 1, false, failover("FORCE")},
		{"CLUSTER FAILOVER FORCE, three processes", 3, false, failover("FORCE")},
		{"the slot moves to another node", 3, true, migrate},
		{"kill -9 of the primary", 3, false, killOwner},
	}
	for _, test := range rows[testsize.Pick(0, len(rows)-1):] {
		t.Run(test.name, func(t *testing.T) {
			dialsEnd(t)
			cluster := redistest.StartReplicatedCluster(t)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
			defer func() { _ = rdb.Close() }()
			slot, err := cluster.Slot(hot)
			if err != nil {
				t.Fatal(err)
			}
			c := startCrowd(t, test.processes, rdb, func() *redislocker.Locker { return redislocker.New(rdb) })
			defer leftNothing(t, cluster.Nodes)
			c.survives(t, test.lossless, func() error { return test.fault(cluster, slot) })
		})
	}
}

func failover(how string) func(*redisproc.Cluster, int) error {
	return func(c *redisproc.Cluster, slot int) error { return c.Failover(slot, how) }
}

func migrate(c *redisproc.Cluster, slot int) error {
	const another = 16384 / 3 // slots further on
	to, err := c.Primary((slot + another) % 16384)
	if err != nil {
		return err
	}
	return c.Migrate(slot, to, time.Second)
}

func killOwner(c *redisproc.Cluster, slot int) error {
	old, err := c.Primary(slot)
	if err != nil {
		return err
	}
	old.Kill()
	return c.AwaitOther(slot, old)
}
