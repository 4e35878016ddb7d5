package redislocker_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// taking accepts connections, answers the login, and takes everything else
// without a word. It returns its address, and how each connection ended on which
// a key was asked for.
func taking(t *testing.T, wrap func(net.Conn) net.Conn) (addr string, ended <-chan error) {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = door.Close() })
	ends := make(chan error, 100)
	go func() { // ends with door
		for {
			raw, err := door.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = raw.Close() }()
				c, asked := wrap(raw), false
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					switch strings.ToLower(lines.Text()) {
					case "hello":
						_, _ = io.WriteString(c, "*0\r\n")
					case "set":
						asked = true
					}
				}
				end := lines.Err()
				if end == nil { // TLS says goodbye first
					_, end = raw.Read(make([]byte, 1))
				}
				if asked {
					ends <- end
				}
			}()
		}
	}()
	return door.Addr().String(), ends
}

// After a close with unsent data the kernel would go on sending. A key taken
// then is nobody's until its TTL.
func TestAClosedConnectionSendsNothingMore(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	server := &tls.Config{Certificates: cert.TLS.Certificates, MinVersion: tls.VersionTLS12}
	client := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	plain := func(c net.Conn) net.Conn { return c }
	for name, c := range map[string]struct {
		wrap   func(net.Conn) net.Conn
		client func(addr string) redis.UniversalClient
	}{
		"plain": {plain, func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr})
		}},
		"TLS": {func(c net.Conn) net.Conn { return tls.Server(c, server) }, func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, TLSConfig: client})
		}},
		"cluster": {plain, func(addr string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{addr},
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
				},
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, ended := taking(t, c.wrap)
			rdb := c.client(addr)
			t.Cleanup(func() { _ = rdb.Close() })
			l := open(t, rdb)
			for limit := 100 * time.Millisecond; ; limit *= 2 {
				if _, err := l.Acquire(within(t, limit), claim("k"), locker.Try{}); err == nil {
					t.Fatal("a key without an answer")
				}
				select {
				case err := <-ended:
					if !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("the connection ended with %v, want a reset", err)
					}
					return
				default:
				}
			}
		})
	}
}
