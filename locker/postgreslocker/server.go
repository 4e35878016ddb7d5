package postgreslocker

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	workers  = 2               // of the calls
	connsMax = 8               // requests at a time
	pagesMax = 2               // of those that may take long, and leave connections to the others
	dying    = 12              // connections that a silent server keeps from being closed, at most
	tripMax  = 2 * time.Second // for a request whose callers have no deadline
	closeMax = time.Second     // for connections to end in order
)

// server lends connections of the locker's own, and is safe for concurrent use.
type server struct {
	config *pgxpool.Config
	pool   *pgxpool.Pool   // set by open
	calls  slots           // for all requests but pages
	pages  slots           // for pages, which may take long
	wire   context.Context // of the connections, which end with it
	cut    context.CancelFunc
	last   atomic.Int64 // when the server last answered, in ns
}

// heard notes an answer of the server.
func (s *server) heard() { s.last.Store(time.Now().UnixNano()) }

// answers reports whether the server has answered anybody since then.
func (s *server) answers(since time.Time) bool { return s.last.Load() > since.UnixNano() }

// newServer owns config.
func newServer(config *pgxpool.Config) *server {
	s := &server{config: config, calls: make(slots, connsMax-pagesMax), pages: make(slots, pagesMax)}
	s.wire, s.cut = context.WithCancel(context.Background()) //nolint:forbidigo // of the locker, until Close
	return s
}

// open makes the pool.
func (s *server) open() (err error) {
	if s.pool, err = pgxpool.NewWithConfig(s.wire, s.wired(s.config)); err != nil {
		return invalid("the pool cannot be made")
	}
	return nil
}

// close closes the connections, at last those that do not end in order.
func (s *server) close() {
	defer s.cut()
	defer time.AfterFunc(closeMax, s.cut).Stop()
	if s.pool != nil {
		s.pool.Close()
	}
}

// complete adds what the address of a connection leaves open.
func complete(conn *pgx.ConnConfig) {
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout > tripMax {
		conn.ConnectTimeout = tripMax
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "guard"
	}
}

// connect makes a connection of its own, as a pool of config would.
func connect(ctx context.Context, config *pgxpool.Config) (*pgx.Conn, error) {
	to := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, to); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil || config.AfterConnect == nil {
		return conn, err
	}
	if err := config.AfterConnect(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// wired returns config with connections that end with s.wire. pgx itself spends
// up to 15 s on each connection that has become silent.
func (s *server) wired(config *pgxpool.Config) *pgxpool.Config {
	config = config.Copy()
	// The pool looks for idle connections only once in each such period.
	config.HealthCheckPeriod = min(config.HealthCheckPeriod, time.Minute)
	config.MaxConnIdleTime = min(config.MaxConnIdleTime, lockerkit.IdleLife-config.HealthCheckPeriod)
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		lockerkit.KeepAlive(c)
		return &wire{c, context.AfterFunc(s.wire, func() { _ = c.Close() })}, nil
	}
	return config
}

// wire is a connection that ends with a context, until Close.
type wire struct {
	net.Conn

	stop func() bool
}

func (w *wire) Close() error {
	w.stop()
	return w.Conn.Close()
}

// slots bound how many requests run at once. A slot that is taken is an
// element.
type slots chan struct{}

// on lends f a connection, in a slot. on blocks until there is one, and returns
// errUnsent if ctx ends first. If the server takes no writes, it may be the old
// primary of a failover, and all connections are made anew.
func (s *server) on(ctx context.Context, in slots, f func(conn *pgxpool.Conn) error) error {
	select {
	case in <- struct{}{}:
		defer func() { <-in }()
	case <-ctx.Done():
		return errUnsent
	}
	began := time.Now()
	err := s.pool.AcquireFunc(ctx, f)
	switch {
	case err == nil, code(err) != "":
		s.heard()
	case s.answers(began):
		err = fmt.Errorf("%w: %w", errOthers, err)
	}
	if code(err) == "25006" { // it takes no writes, and has done nothing
		s.pool.Reset()
	}
	return err
}

// send calls f with a connection, again if the server asks for it or has not
// seen what f has sent.
func (s *server) send(ctx context.Context, in slots, f func(conn *pgxpool.Conn) error) (err error) {
	for n := 0; ; n++ {
		err = s.on(ctx, in, f)
		if err == nil || n == 2 || ctx.Err() != nil || !again(err) {
			return err
		}
	}
}

// collect sends a statement, and returns its rows.
func collect[T any](ctx context.Context, s *server, in slots, of pgx.RowToFunc[T], sql string, args ...any) (
	found []T, err error,
) {
	err = s.send(ctx, in, func(conn *pgxpool.Conn) error {
		rs, err := conn.Query(ctx, sql, args...)
		if err == nil {
			found, err = pgx.CollectRows(rs, of)
		}
		return err
	})
	return found, err
}
