package redisconn

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// loggedIn is a connection that has logged in already. It answers a HELLO
// itself, which is the first request of go-redis and the request of open. One
// request at a time uses it, so answer needs no mutex. A pool may check the
// connection beside a request, so reading is atomic.
type loggedIn struct {
	net.Conn

	socket  syscall.Conn  // to check; nil if Conn has none, as that of TLS
	answer  string        // the unread rest of the answer to a HELLO
	reading atomic.Bool   // a read is under way
	heard   atomic.Int64  // when the last read succeeded, after begun; 0: never
	made    time.Duration // when it had logged in, after begun
	left    *atomic.Int64 // see [liveness]
}

// begun is when the clock of loggedIn.heard began.
var begun = time.Now()

// alive is how long a connection that the server has answered on counts as
// alive. A check costs as much as half a request. One that died in this time is
// found by the next request, as one that dies under way.
const alive = 10 * time.Millisecond

var (
	// errReading refuses a look at a connection that somebody reads from.
	errReading  = errors.New("redisconn: a read is under way")
	errLeftIdle = errors.New("redisconn: the connection may have been forgotten on its way")
)

// SyscallConn is called by go-redis before it uses the connection. An error
// makes it use another one.
//
// No connection is checked while a read is under way. A pool that closes takes
// away the time limit of such a read and then checks the connection. The check
// waits for the read to end, and with a server that does not answer it never
// ends.
func (c *loggedIn) SyscallConn() (syscall.RawConn, error) {
	if c.reading.Load() {
		return nil, errReading
	}
	heard := c.heard.Load()
	if left := c.left.Load(); left > 0 && max(heard, int64(c.made)) <= left {
		return nil, errLeftIdle
	}
	if b, ok := c.Conn.(*electedConn); ok && b.left() {
		return nil, errLeft
	}
	if c.socket != nil && (heard == 0 || time.Since(begun)-time.Duration(heard) > alive) {
		return c.socket.SyscallConn()
	}
	return uncheckedSocket{}, nil
}

// uncheckedSocket stands for a socket that need not be checked.
type uncheckedSocket struct{}

func (uncheckedSocket) Control(func(uintptr)) error    { return nil }
func (uncheckedSocket) Read(func(uintptr) bool) error  { return nil }
func (uncheckedSocket) Write(func(uintptr) bool) error { return nil }

func afterLogin(conn net.Conn, left *atomic.Int64) net.Conn {
	c := &loggedIn{Conn: conn, made: time.Since(begun), left: left}
	if b, ok := conn.(*electedConn); ok {
		conn = b.Conn
	}
	c.socket, _ = conn.(syscall.Conn)
	return c
}

func (c *loggedIn) Write(b []byte) (int, error) {
	if isHello(b) {
		c.answer = "*0\r\n"
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// isHello reports whether a request begins with a HELLO.
func isHello(b []byte) bool {
	const verb = "\r\n$5\r\nhello\r\n"
	return len(b) > 2+len(verb) && string(b[2:2+len(verb)]) == verb // behind "*" and the number of arguments
}

func (c *loggedIn) Read(b []byte) (int, error) {
	if c.answer != "" {
		n := copy(b, c.answer)
		c.answer = c.answer[n:]
		return n, nil
	}
	c.reading.Store(true)
	defer c.reading.Store(false)
	n, err := c.Conn.Read(b)
	if err == nil {
		c.heard.Store(int64(time.Since(begun)))
	}
	return n, err
}
