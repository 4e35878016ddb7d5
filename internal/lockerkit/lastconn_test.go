package lockerkit_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func TestOnlyTheLastConnectionIsOpen(t *testing.T) {
	var clients []net.Conn
	during := func() {}
	last := lockerkit.LastConn{By: func(string, string, time.Duration) (net.Conn, error) {
		c, s := net.Pipe()
		t.Cleanup(func() { _ = s.Close() })
		clients = append(clients, c)
		during()
		return c, nil
	}}
	dial := func() error { _, err := last.Dial("tcp", "a:1", time.Second); return err }
	if err := errors.Join(dial(), dial()); err != nil {
		t.Fatal(err)
	}
	if !isClosed(clients[0]) || isClosed(clients[1]) {
		t.Error("want the first connection closed and the second open")
	}
	during = last.Close
	if err := dial(); !errors.Is(err, net.ErrClosed) || !isClosed(clients[1]) || !isClosed(clients[2]) {
		t.Errorf("closed during a dial: %v", err)
	}
	if err := dial(); !errors.Is(err, net.ErrClosed) || len(clients) != 3 {
		t.Errorf("after the end: %v, and %d connections", err, len(clients))
	}
}

func isClosed(c net.Conn) bool { return errors.Is(c.SetDeadline(time.Time{}), io.ErrClosedPipe) }
