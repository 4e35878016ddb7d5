package redisconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A client of go-redis reloads the nodes of a Cluster in the background. Its
// pool must close although such a request waits for a server that hangs.
func TestAPoolClosesWhileAServerHangs(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	rdb := redis.NewClient(&redis.Options{
		Addr: server.Addr().String(), DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Hour,
		MaintNotificationsConfig: noMaintenance(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return afterLogin(conn, new(atomic.Int64)), nil
		},
	})
	asked := make(chan error, 1)
	go func() { asked <- rdb.Ping(t.Context()).Err() }()
	hung, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	if _, err := hung.Read(make([]byte, 64)); err != nil { // the PING has come
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- rdb.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for an answer of the server that hangs")
	}
	if err := <-asked; err == nil {
		t.Error("PING succeeded without an answer")
	}
}
