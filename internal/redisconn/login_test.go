package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyADialThatTookItsTimeIsMute(t *testing.T) {
	for _, c := range []struct {
		err         error
		took, limit time.Duration
		want        bool
	}{
		{os.ErrDeadlineExceeded, dialLimit, dialLimit, true},
		{context.DeadlineExceeded, dialLimit + 90*time.Millisecond, dialLimit, true},
		{context.DeadlineExceeded, dialLimit + 110*time.Millisecond, dialLimit, false}, // the process has slept
		{context.DeadlineExceeded, time.Second, dialLimit, false},                      // another limit
		{context.DeadlineExceeded, time.Second, time.Second, true},
		{context.DeadlineExceeded, 100 * time.Millisecond, 100 * time.Millisecond, false}, // too short for a far server
		{io.EOF, dialLimit, dialLimit, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			time.Sleep(c.took)
			err := silentDial(c.err, start, c.limit)
			if errors.Is(err, ErrSilentDial) != c.want || !errors.Is(err, c.err) {
				t.Errorf("%v after %v of %v: %v, want ErrSilentDial: %v", c.err, c.took, c.limit, err, c.want)
			}
		})
	}
}

// A lingerer is a connection whose linger time can be set, as one of TCP.
type lingerer struct {
	net.Conn
	set bool
}

func (l *lingerer) SetLinger(seconds int) error { l.set = seconds == 0; return nil }

func TestEveryConnectionIsAbrupt(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	w := &primaryTracker{}
	for name, wrap := range map[string]func(c net.Conn) net.Conn{
		"TCP": func(c net.Conn) net.Conn { return c },
		"TLS": func(c net.Conn) net.Conn {
			return tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12})
		},
		"Sentinel": func(c net.Conn) net.Conn { return w.bind(c, "") },
		"Sentinel, TLS": func(c net.Conn) net.Conn {
			return w.bind(tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12}), "")
		},
	} {
		c := &lingerer{Conn: ours}
		if abrupt(wrap(c)); !c.set {
			t.Errorf("%s: it lingers", name)
		}
	}
	abrupt(ours) // knows nothing of it
}
