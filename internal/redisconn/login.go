package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
)

// logins are made on new connections while they are dialed. go-redis dials in
// the background. If the request that asked for a connection has gone, the next
// request gets it. But go-redis logs in within that request, and closes the
// connection if the request's time ends first. Far from the server this would
// happen to every connection.
type logins struct {
	name     string                               // of the connections; "" for none
	admit    func(map[string]string, error) error // may refuse a node of package redlock; nil admits all
	trip     *Trip                                // to the servers, and the sentinels near them; each login measures it
	liveness perServer[*liveness]                 // by address, "" without a cluster

	ctx    context.Context // of all logins; ended by close
	cancel context.CancelFunc

	mu    sync.Mutex     // between enter and the end of ctx; never held across I/O
	dials sync.WaitGroup // under way; none begins once ctx has ended, or no call is under way
}

func newLogins(name string, admit func(map[string]string, error) error, trip *Trip) *logins {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // connections belong to no one caller
	return &logins{name: name, admit: admit, trip: trip, ctx: ctx, cancel: cancel}
}

// close ends the dials under way and waits for them.
func (g *logins) close() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.dials.Wait()
}

func (g *logins) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return redis.ErrClosed
	}
	g.dials.Add(1)
	return nil
}

// in returns a hook that logs in on the connections of a client, in place of
// go-redis. login has the settings for that, and the client's own options have
// none of them. dial is the limit of a dial, 0 for the usual.
func (g *logins) in(login *redis.Options, dial time.Duration) *loginHook {
	login = loginOf(login)
	login.ClientName = cmp.Or(login.ClientName, g.name)
	return &loginHook{logins: g, login: login, dial: cmp.Or(dial, dialLimit)}
}

// loginOf takes from o the settings that a login needs.
func loginOf(o *redis.Options) *redis.Options {
	login := &redis.Options{
		Username: o.Username, Password: o.Password, DB: o.DB, ClientName: o.ClientName,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
	}
	if s := o.StreamingCredentialsProvider; s != nil {
		login.CredentialsProviderContext = func(context.Context) (user, password string, err error) {
			now, leave, err := s.Subscribe(&noUpdates{})
			if err != nil {
				return "", "", err
			}
			user, password = now.BasicAuth()
			return user, password, leave()
		}
	}
	return login
}

// noUpdates asks for credentials once. It has a size, because subscriptions are
// told apart by their pointers.
type noUpdates struct{ _ byte }

func (*noUpdates) OnNext(auth.Credentials) {}
func (*noUpdates) OnError(error)           {}

// A loginHook logs in on the connections of one client.
type loginHook struct {
	dialsOnly
	*logins

	login   *redis.Options
	dial    time.Duration // limit of a dial, without the login
	cluster bool          // the client's addresses are nodes
}

// DialHook is called by go-redis, like the other hooks.
func (g *loginHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := g.enter(); err != nil {
			return nil, err
		}
		defer g.dials.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stay := context.AfterFunc(g.ctx, cancel)
		defer stay()
		start := time.Now()
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, silentDial(err, start, g.dial)
		}
		abrupt(conn)
		lockerkit.KeepAlive(conn)
		start = time.Now()
		if err := g.logIn(ctx, conn); err != nil {
			_ = conn.Close()
			return nil, silentDial(err, start, dialLimit)
		}
		node := ""
		if g.cluster {
			node = addr
		}
		return afterLogin(conn, &g.liveness.of(node, newLiveness).left), nil
	}
}

// abrupt makes conn send nothing more once it is closed. Otherwise the kernel
// goes on sending for minutes, and a request that was given up takes a key for
// nobody.
func abrupt(conn net.Conn) {
	switch c := conn.(type) {
	case interface{ SetLinger(seconds int) error }: // as of TCP
		_ = c.SetLinger(0) // a hint: without it the key ends at its TTL
	case interface{ NetConn() net.Conn }: // as of TLS
		abrupt(c.NetConn())
	}
}

// ErrSilentDial says that a new connection got no answer within its own limit,
// which is that of a whole try or more, although this process was awake. It is
// no timeout of the request that it comes with: go-redis answers with the error
// of its last dial at once after many of them.
var ErrSilentDial = errors.New("a new connection got no answer")

// silentDial makes an ErrSilentDial of the error of a dial or a login with a
// limit, begun at the given time, if it is one.
func silentDial(err error, start time.Time, limit time.Duration) error {
	const early, late = 10 * time.Millisecond, 100 * time.Millisecond // later, and the process has slept
	if took := time.Since(start); !unanswered(err) || took < max(limit, batchLimit)-early || took > limit+late {
		return err
	}
	return silentDialError{err}
}

// silentDialError is an [ErrSilentDial] whose text is that of its cause.
type silentDialError struct{ error }

func (e silentDialError) Unwrap() error      { return e.error }
func (silentDialError) Is(target error) bool { return target == ErrSilentDial }

// Timeout is that of a net.Error.
func (silentDialError) Timeout() bool { return false }

// dialsOnly is the part of a hook that leaves requests alone.
type dialsOnly struct{}

// ProcessHook is called by go-redis.
func (dialsOnly) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is called by go-redis.
func (dialsOnly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// errLoggedIn ends the client that has logged in, and leaves the connection
// open.
var errLoggedIn = errors.New("logged in")

// logIn logs in on conn. It has dialLimit for that, however little is left of
// the dial. It ends earlier if dial is canceled.
func (g *loginHook) logIn(dial context.Context, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(g.ctx, limits.Apart(dialLimit))
	defer cancel()
	stay := context.AfterFunc(dial, func() {
		if errors.Is(dial.Err(), context.Canceled) {
			cancel()
		}
	})
	defer stay()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	start, by := time.Now(), *g.login
	by.Addr, by.Protocol, by.DisableIdentity = "login", 2, true
	by.MaxRetries, by.PoolSize, by.DialerRetries, by.ContextTimeoutEnabled = -1, 1, 1, true
	by.ReadBufferSize, by.WriteBufferSize = 4096, 4096
	by.MaintNotificationsConfig = noMaintenance()
	by.Dialer = func(context.Context, string, string) (net.Conn, error) { return &borrowed{Conn: conn}, nil }
	named := &nameOnce{}
	by.OnConnect = func(ctx context.Context, c *redis.Conn) error {
		g.trip.note(time.Since(start))
		return cmp.Or(g.admitted(ctx, c), errLoggedIn)
	}
	client := redis.NewClient(&by)
	defer func() { _ = client.Close() }()
	client.AddHook(named)
	err := client.Ping(ctx).Err() // it never gets to the ping
	if !stop() {
		return context.Cause(ctx)
	}
	if !errors.Is(err, errLoggedIn) {
		return cmp.Or(named.telling(err), ErrNoAnswer)
	}
	return conn.SetDeadline(time.Time{})
}

// admitted asks whether the node may be used.
func (g *logins) admitted(ctx context.Context, c *redis.Conn) error {
	if g.admit == nil {
		return nil
	}
	text, err := c.Info(ctx, "server").Result()
	if err := g.admit(ReadInfo(text), err); err != nil {
		return fmt.Errorf("%w", err) // go-redis reports the wrapped error
	}
	return nil
}

// nameOnce lets go-redis name a connection in the first request, without
// another round trip. By itself go-redis does that and names it a second time.
// It takes a refusal of the second naming for a failure.
type nameOnce struct {
	refusal error // of the first request
}

func (n *nameOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook records a refusal of the first request.
func (n *nameOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "hello" {
			n.refusal = err
		}
		return err
	}
}

// ProcessPipelineHook leaves out the second naming, unless the server does not
// take names in the first request. A name must not cost leases, so a refusal is
// not an error.
func (n *nameOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if n.refusal == nil {
			cmds = slices.DeleteFunc(slices.Clone(cmds), isNaming)
		}
		if len(cmds) == 0 {
			return nil
		}
		_ = next(ctx, cmds) // each command has its own error
		for _, c := range cmds {
			var answer redis.Error
			if err := c.Err(); err != nil && (!isNaming(c) || !errors.As(err, &answer)) {
				return err
			}
		}
		return nil
	}
}

func isNaming(c redis.Cmder) bool { return c.Name() == "client" }

// telling returns the error of a login that ended with err. A server that takes
// no connection answers the first request so, and closes the connection.
// go-redis takes that for a server that does not know the request, and goes on.
func (n *nameOnce) telling(err error) error {
	var answer redis.Error
	if errors.As(n.refusal, &answer) && err != nil && !errors.As(err, &answer) && noConnection(answer) {
		return n.refusal
	}
	return err
}

// noConnection reports whether an answer says that the server takes no
// connection. Other answers are about the request alone.
func noConnection(answer redis.Error) bool {
	text := answer.Error() // of a server that is full, or in protected mode
	return strings.HasPrefix(text, "ERR max number of clients") || strings.HasPrefix(text, "DENIED ")
}

// borrowed is a connection that its client may use but not close. One client
// uses it, a request at a time.
type borrowed struct {
	net.Conn

	broken error // of a write
}

func (*borrowed) Close() error { return nil }

// Write succeeds even if the connection is broken. The server may have said why
// before, and Read finds that.
func (c *borrowed) Write(b []byte) (int, error) {
	if _, err := c.Conn.Write(b); err != nil {
		c.broken = cmp.Or(c.broken, err)
	}
	return len(b), nil
}

func (c *borrowed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = cmp.Or(c.broken, err)
	}
	return n, err
}
