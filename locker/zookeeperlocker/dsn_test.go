package zookeeperlocker

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// scripted dials servers of which each answers the first request of its
// connection as the test says.
type scripted struct {
	answer func(n int, server net.Conn) // to the first request of the nth connection
	wait   <-chan struct{}              // if not nil: a dial waits for it

	dialed, open atomic.Int32
}

func (s *scripted) dial(string, string, time.Duration) (net.Conn, error) {
	n := int(s.dialed.Add(1))
	if s.wait != nil {
		<-s.wait
	}
	client, server := net.Pipe()
	s.open.Add(1)
	go func() { // ends with the connection, or after an hour
		defer server.Close()
		_ = server.SetDeadline(time.Now().Add(time.Hour))
		if length := make([]byte, 4); read(server, length) &&
			read(server, make([]byte, binary.BigEndian.Uint32(length))) {
			s.answer(n, server)
		}
		_, _ = io.Copy(io.Discard, server)
	}()
	return &counted{Conn: client, open: &s.open}, nil
}

func read(c net.Conn, b []byte) bool {
	_, err := io.ReadFull(c, b)
	return err == nil
}

// counted is a connection that counts while it is open.
type counted struct {
	net.Conn

	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// expired tells the client that its session has expired.
func expired(server net.Conn) {
	_, _ = server.Write(append(binary.BigEndian.AppendUint32(nil, 20), make([]byte, 20)...))
}

// TestNothingIsLeftOfAConnectionThatEnds ends a connection while a server does
// what the client does not expect.
func TestNothingIsLeftOfAConnectionThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		dials  bool // the end comes while the client dials
		answer func(ended <-chan struct{}) func(n int, server net.Conn)
	}{
		"its session expires then": {answer: func(ended <-chan struct{}) func(int, net.Conn) {
			return func(_ int, server net.Conn) { <-ended; expired(server) }
		}},
		"the server does not answer": {answer: func(<-chan struct{}) func(int, net.Conn) {
			return func(int, net.Conn) {}
		}},
		"the client dials": {dials: true, answer: func(<-chan struct{}) func(int, net.Conn) {
			return func(int, net.Conn) {}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ending := make(chan struct{})
				s := &scripted{answer: c.answer(ending)}
				if c.dials {
					s.wait = ending
				}
				_, end, err := connect([]string{"a:1", "b:1"}, s.dial)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.AfterFunc(time.Second/2, func() { close(ending) })
				from := time.Now()
				end()
				took, dialed := time.Since(from), s.dialed.Load()
				if open := s.open.Load(); took > 2*time.Second || open != 0 {
					t.Errorf("after %v, %d of %d connections are open", took, open, dialed)
				}
				time.Sleep(2 * time.Minute) // virtual
				if more := s.dialed.Load() - dialed; more > 0 {
					t.Errorf("it dialed %d times after its end", more)
				}
			})
		})
	}
}

func TestTheConnectionOfASessionThatHasExpiredIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(n int, server net.Conn) {
			if n < 10 {
				expired(server)
			}
		}}
		_, end, err := connect([]string{"a:1", "b:1"}, s.dial)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute / 2) // virtual
		if dialed, open := s.dialed.Load(), s.open.Load(); dialed < 10 || open > 1 {
			t.Errorf("%d of %d connections are open", open, dialed)
		}
		end()
	})
}
