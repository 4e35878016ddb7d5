package lockerkit

import (
	"net"
	"time"
)

// IdleLife is how long a connection that a locker opens may go unused. Balancers
// and NATs forget such a connection without telling either end, see
// docs/operations.md. The shortest limit of a cloud is 4 minutes.
const IdleLife = 3 * time.Minute

// KeepAlive makes the kernel send something over conn each minute in which it
// carries nothing. KeepAlive does nothing for a connection that is not TCP.
func KeepAlive(conn net.Conn) {
	switch c := conn.(type) {
	case interface {
		SetKeepAliveConfig(config net.KeepAliveConfig) error
	}: // as of TCP
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4,
		}) // a hint
	case interface{ NetConn() net.Conn }: // as of TLS
		KeepAlive(c.NetConn())
	}
}

// IdleTime is how long a connection may go unused that the caller gives the
// given time; 0 or less is no limit.
func IdleTime(theirs time.Duration) time.Duration {
	if theirs <= 0 {
		return IdleLife
	}
	return min(theirs, IdleLife)
}
