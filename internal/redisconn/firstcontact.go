package redisconn

import (
	"context"
	"net"
	"sync"

	"github.com/go-lockguard/guard/internal/limits"
)

// A firstContact is that of go-redis with the sentinels. It takes twice as
// long as ours, because go-redis first asks for other sentinels and then
// subscribes. So nobody waits for it. Until it is over, the locker itself asks
// the sentinels where to dial. A firstContact is safe for concurrent use.
type firstContact struct {
	ctx    context.Context // of go-redis's dial, which outlives the request that needs it; ended by close
	cancel context.CancelFunc
	over   context.Context // ends when that dial ends, with or without success
	end    context.CancelFunc
	begun  sync.Once
	dial   sync.WaitGroup
}

func newFirstContact() *firstContact {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // no request waits for it
	over, end := context.WithCancel(ctx)
	return &firstContact{ctx: ctx, cancel: cancel, over: over, end: end}
}

// begin lets go-redis meet the sentinels, once. The connection is not needed.
func (m *firstContact) begin(theirs dial) {
	m.begun.Do(func() {
		m.dial.Go(func() { // ends with its time limit, or with close
			defer m.end()
			ctx, cancel := context.WithTimeout(m.ctx, limits.Apart(2*dialLimit))
			defer cancel()
			if conn, err := theirs(ctx); err == nil {
				_ = conn.Close()
			}
		})
	})
}

// close ends the contact and waits for it. No other begins.
func (m *firstContact) close() {
	m.cancel()
	m.dial.Wait()
}

// dial connects to a server.
type dial func(ctx context.Context) (net.Conn, error)

// primary returns a connection to the primary, and the address that the
// sentinels have elected. The address is "" if they have elected none. theirs
// is how go-redis dials.
func (s *sentinels) primary(ctx context.Context, network string, theirs dial) (net.Conn, string, error) {
	s.contact.begin(theirs)
	if conn, addr := s.early(ctx, network); conn != nil {
		return conn, addr, nil
	}
	conn, err := theirs(ctx)
	return s.lead(ctx, network, conn, err)
}

// early connects to the server that the majority of the sentinels calls the
// primary. conn is nil if that is not possible before go-redis has met them.
func (s *sentinels) early(ctx context.Context, network string) (conn net.Conn, addr string) {
	if s.contact.over.Err() != nil {
		return nil, ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stay := context.AfterFunc(s.contact.over, cancel)
	defer stay()
	// The first votes come on new connections. Far away, with TLS, these take
	// longer than one dial.
	if addr, _ = s.elect(ctx, 2*dialLimit); addr == "" {
		return nil, ""
	}
	conn, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, ""
	}
	return conn, addr
}
