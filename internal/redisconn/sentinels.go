package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
)

// sentinels asks all sentinels where the primary is. go-redis listens to only
// one of them, and that one may be seconds behind the others. In that time some
// lockers would be with the old primary and some with the new. sentinels is
// safe for concurrent use.
type sentinels struct {
	name    string
	clients []*redis.SentinelClient
	dial    func(ctx context.Context, network, addr string) (net.Conn, error) // to a server
	logins  *logins

	contact    sync.Once       // the first of go-redis with the sentinels
	contacted  context.Context // ends with the first contact, or with logins
	endContact context.CancelFunc
}

func newSentinels(o redis.UniversalOptions, g *logins) *sentinels {
	s := &sentinels{name: o.MasterName, dial: serverDialer(o), logins: g}
	s.contacted, s.endContact = context.WithCancel(g.ctx)
	for _, addr := range o.Addrs {
		own := &redis.Options{
			Addr: addr, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
			MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, DialerRetries: 1,
			PoolSize: patientPool, MaxIdleConns: 1, Protocol: 2, DisableIdentity: true,
		}
		client := redis.NewSentinelClient(own)
		client.AddHook(g.in(&redis.Options{Username: o.SentinelUsername, Password: o.SentinelPassword}, o.DialTimeout))
		s.clients = append(s.clients, client)
	}
	return s
}

// serverDialer connects to a server as go-redis does with these options.
// Unlike redis.NewDialer, it ends with its context if it uses TLS, too.
func serverDialer(o redis.UniversalOptions) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: o.DialTimeout}
	switch {
	case o.Dialer != nil:
		return o.Dialer
	case o.TLSConfig != nil:
		return (&tls.Dialer{NetDialer: plain, Config: o.TLSConfig}).DialContext
	}
	return plain.DialContext
}

// firstContact lets go-redis contact the sentinels, once. The connection is not
// needed. The contact takes twice as long as an election, because go-redis
// first asks for other sentinels and then subscribes. So nobody waits for it.
func (s *sentinels) firstContact(theirs dial) {
	s.contact.Do(func() {
		if s.logins.enter() != nil {
			return
		}
		go func() { // ends with its time limit, or with logins
			defer s.logins.dials.Done()
			defer s.endContact()
			ctx, cancel := context.WithTimeout(s.contacted, limits.Apart(2*dialLimit))
			defer cancel()
			if conn, err := theirs(ctx); err == nil {
				_ = conn.Close()
			}
		}()
	})
}

// dial connects to a server.
type dial func(ctx context.Context) (net.Conn, error)

// primary returns a connection to the primary, and the address that the
// sentinels have elected. The address is "" if they have elected none. theirs
// is how go-redis dials.
func (s *sentinels) primary(ctx context.Context, network string, theirs dial) (net.Conn, string, error) {
	s.firstContact(theirs)
	if conn, addr := s.early(ctx, network); conn != nil {
		return conn, addr, nil
	}
	conn, err := theirs(ctx)
	return s.lead(ctx, network, conn, err)
}

// early connects to the server that the majority of the sentinels calls the
// primary. conn is nil if that is not possible before the first contact has
// ended.
func (s *sentinels) early(ctx context.Context, network string) (conn net.Conn, addr string) {
	if s.contacted.Err() != nil {
		return nil, ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stay := context.AfterFunc(s.contacted, cancel)
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

// voteLimit is how long a connection waits for further votes, if the votes so
// far do not decide. Far away it is three round trips.
const voteLimit = 100 * time.Millisecond

var (
	errNoMajority = errors.New("the sentinels do not agree which server is the primary: a failover is under way")
	errLeft       = errors.New("most sentinels call another server the primary by now")
)

// lead returns a connection to the server that the majority of the sentinels
// calls the primary. elected is its address. The connection is conn if that
// leads there. If no sentinel answers, lead returns conn and err, and elected
// is "".
func (s *sentinels) lead(ctx context.Context, network string, conn net.Conn, err error) (c net.Conn,
	elected string, _ error,
) {
	addr, answered := s.elect(ctx, s.logins.trip.Patience(voteLimit))
	if !answered || err == nil && conn.RemoteAddr().String() == addr {
		return conn, addr, err
	}
	if err == nil {
		_ = conn.Close()
	}
	if addr == "" {
		return nil, "", errNoMajority
	}
	conn, err = s.dial(ctx, network, addr)
	return conn, addr, err
}

// elect returns the server that the majority of the sentinels calls the
// primary. The majority is more than half of all. After limit it is more than
// half of those that have answered. addr is "" if they do not agree.
func (s *sentinels) elect(ctx context.Context, limit time.Duration) (addr string, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, limits.Apart(limit))
	defer cancel()
	votes, all := map[string]int{}, 0
	answers := make(chan string, len(s.clients))
	for _, c := range s.clients {
		go func() { answers <- s.named(ctx, c) }() // ends by the limit, even if nobody waits for it any more
	}
	for range s.clients {
		at := <-answers
		if at == "" {
			continue
		}
		votes[at]++
		if all++; votes[at] > len(s.clients)/2 {
			return at, true
		}
	}
	for at, n := range votes {
		if n > all/2 {
			return at, true
		}
	}
	return "", all > 0
}

// named returns the address that a sentinel calls the primary, "" for no
// answer.
func (s *sentinels) named(ctx context.Context, c *redis.SentinelClient) string {
	at, err := c.GetMasterAddrByName(ctx, s.name).Result()
	if err != nil || len(at) != 2 {
		return ""
	}
	return net.JoinHostPort(at[0], at[1])
}

// close must be called when no dial is under way any more.
func (s *sentinels) close() {
	s.endContact()
	for _, c := range s.clients {
		_ = c.Close()
	}
}
