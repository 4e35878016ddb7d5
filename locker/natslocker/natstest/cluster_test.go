package natstest_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testproc"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/natslocker"
)

// Three servers: a write under way refuses another, which the leader does not
// show yet.
func TestCluster(t *testing.T) {
	addrs, err := testproc.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	var routes []*url.URL
	for _, addr := range addrs {
		routes = append(routes, &url.URL{Scheme: "nats", Host: addr})
	}
	var urls []string
	for i, addr := range addrs {
		port := int(netip.MustParseAddrPort(addr).Port())
		s := start(t, func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprintf("s%d", i), routes
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}
		})
		urls = append(urls, s.ClientURL())
	}
	nc := connect(t, urls[0])
	testguard.Eventually(t, "the cluster has a leader", func() bool {
		c := settings("ready")
		c.Replicas = 3
		return tryCreate(nc, c) == nil
	})
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		c := settings(fmt.Sprintf("b%d", buckets.Add(1)))
		c.Replicas = 3
		create(t, nc, c)
		name := c.Name[len("KV_"):]
		return natslocker.New(served(t, urls[1], name), name), natslocker.New(served(t, urls[2], name), name)
	}, lockertest.AtOnce(4))
}

// served connects to a server that knows by now who leads the bucket.
func served(t *testing.T, url, bucket string) *nats.Conn {
	t.Helper()
	nc := connect(t, url)
	testguard.Eventually(t, "a request about "+bucket+" is answered", func() bool {
		_, err := nc.Request("$KV."+bucket+".ready", nil, 5*time.Second)
		return err == nil
	})
	return nc
}
