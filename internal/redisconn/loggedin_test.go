package redisconn

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestAConnectionIsCheckedUnlessItHasJustAnswered(t *testing.T) {
	client, server := tcpPair(t)
	c, ok := afterLogin(client, new(atomic.Int64)).(*loggedIn)
	if !ok || c.socket == nil {
		t.Fatal("the socket of a TCP connection is not seen")
	}
	looks := func() bool {
		t.Helper()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		looked := false
		if err := raw.Control(func(uintptr) { looked = true }); err != nil {
			t.Fatal(err)
		}
		return looked
	}
	if !looks() {
		t.Error("a connection that has not answered yet is not checked")
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil || c.heard.Load() == 0 {
		t.Fatalf("an answer is not noted: %v", err)
	}
	now := int64(time.Since(begun))
	c.heard.Store(now + int64(time.Hour)) // that is, just now, however slow this machine is
	if looks() {
		t.Error("a connection that has just answered is checked")
	}
	c.heard.Store(now - int64(alive))
	if !looks() {
		t.Error("a connection that has rested is not checked")
	}
	c.heard.Store(0)
	server.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil || c.heard.Load() != 0 {
		t.Errorf("the end of a connection counts as an answer: %v", err)
	}
}

func TestAConnectionToAReplacedPrimaryIsRefusedEvenIfItHasJustAnswered(t *testing.T) {
	client, _ := tcpPair(t)
	w := &primaryTracker{}
	w.note("a:1", time.Now())
	c, ok := afterLogin(w.bind(client, "a:1"), new(atomic.Int64)).(*loggedIn)
	if !ok || c.socket == nil {
		t.Fatal("the socket of a TCP connection is not seen")
	}
	c.heard.Store(int64(time.Since(begun) + time.Hour))
	if _, err := c.SyscallConn(); err != nil {
		t.Error(err)
	}
	w.note("b:1", time.Now())
	if _, err := c.SyscallConn(); !errors.Is(err, errLeft) {
		t.Errorf("got %v, want errLeft", err)
	}
}
