package postgreslocker

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	besides  = 2               // requests at a time that are no calls
	dying    = 12              // connections that a silent server keeps from being closed, at most
	tripMax  = 2 * time.Second // for a request whose callers have no deadline
	closeMax = time.Second     // for connections to end in order
)

// server lends connections of the locker's own, and is safe for concurrent use.
type server struct {
	config *pgxpool.Config
	sql    *statements     // for its table; nil if a setting is wrong
	pool   *pgxpool.Pool   // set by open
	beside slots           // for the connections that are no worker's
	slow   slots           // for those of them whose requests may take long
	wire   context.Context // of the connections, which end with it
	cut    context.CancelFunc
}

// newServer owns config.
func newServer(config *pgxpool.Config) *server {
	s := &server{config: config, beside: make(slots, besides), slow: make(slots, besides-1)}
	s.wire, s.cut = context.WithCancel(context.Background()) //nolint:forbidigo // of the locker, until Close
	return s
}

// open makes the pool, whose goroutines end with ctx.
func (s *server) open(ctx context.Context) (err error) {
	if s.pool, err = pgxpool.NewWithConfig(ctx, s.wired(s.config)); err != nil {
		return invalid("the pool cannot be made")
	}
	return nil
}

// close closes the connections, at last those that do not end in order.
func (s *server) close() {
	defer s.cut()
	defer time.AfterFunc(closeMax, s.cut).Stop()
	s.pool.Close()
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

// in calls f in a slot. in blocks until there is one, and returns errUnsent if
// ctx ends first.
func (s slots) in(ctx context.Context, f func() error) error {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return f()
	case <-ctx.Done():
		return errUnsent
	}
}

// aside lends f a connection, for a request that is not a call. Such requests
// wait for one another, so that calls need not wait for them.
func (s *server) aside(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	return s.beside.in(ctx, func() error { return s.on(ctx, f) })
}

// slowly is aside for requests that may take long. They leave a connection to
// renewals.
func (s *server) slowly(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	return s.slow.in(ctx, func() error { return s.aside(ctx, f) })
}

// on lends f a connection. If the server takes no writes, it may be the old
// primary of a failover, and all connections are made anew.
func (s *server) on(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	err := s.pool.AcquireFunc(ctx, f)
	if notPrimary(err) {
		s.pool.Reset()
	}
	return err
}

// retry calls f, and again if the server asks for it or has not seen the
// request.
func retry(ctx context.Context, f func() error) error {
	err := f()
	for range 2 {
		if err == nil || ctx.Err() != nil || !again(err) {
			break
		}
		err = f()
	}
	return err
}

// states returns the states of keys that a statement of inspection finds.
func (s *server) states(ctx context.Context, sql string, key []byte) (states []locker.KeyState, err error) {
	err = retry(ctx, func() error {
		return s.slowly(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, sql, key)
			if err != nil {
				return err
			}
			states, err = pgx.CollectRows(rows, scanState)
			return err
		})
	})
	return states, translate(err)
}

// renew renews the claims at some places of cs, by a statement that writes
// channel into their rows. renew returns the owner ids that still own their
// keys, and whether others wait for those.
func (s *server) renew(ctx context.Context, sql, channel string, cs []*locker.Claim, at []int) (
	got map[string]bool, err error,
) {
	keys, owners, ttls := make([][]byte, len(at)), make([]string, len(at)), make([]int64, len(at))
	for n, i := range at {
		keys[n], owners[n], ttls[n] = []byte(cs[i].Key), cs[i].Owner, cs[i].TTL.Microseconds()
	}
	err = retry(ctx, func() error {
		return s.aside(ctx, func(conn *pgxpool.Conn) error {
			got = make(map[string]bool, len(at))
			rows, err := conn.Query(ctx, sql, keys, owners, ttls, channel)
			if err != nil {
				return err
			}
			var owner string
			var waits bool
			_, err = pgx.ForEachRow(rows, []any{&owner, &waits, nil}, func() error {
				got[owner] = waits
				return nil
			})
			return err
		})
	})
	return got, err
}

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // since a key was used
)

// sweep deletes rows that nobody has used for long, and records that have ended.
func (s *server) sweep(life *lockerkit.Life) {
	for lockerkit.Pause(sweepEvery+rand.N(sweepEvery), life.Closing()) {
		s.sweepTable(life.Context(), s.sql.sweep, sweepAfter.Microseconds())
		s.sweepTable(life.Context(), s.sql.sweepRecords)
	}
}

// sweepTable deletes rows, a thousand at a time.
func (s *server) sweepTable(ctx context.Context, sql string, args ...any) {
	for deleted := int64(1000); deleted == 1000; {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := s.slowly(limited, func(conn *pgxpool.Conn) error {
			tag, err := conn.Exec(limited, sql, args...)
			deleted = tag.RowsAffected()
			return err
		})
		cancel()
		if err != nil {
			return
		}
	}
}
