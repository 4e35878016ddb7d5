package postgreslocker

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] in PostgreSQL, made by [New] and opened by
// guard.New. Its methods block for as long as their requests, at most until the
// context ends. After Close they return [locker.ErrClosed]. A Locker is safe
// for concurrent use.
type Locker struct {
	config   *pgxpool.Config // of the locker's own connections
	listenAt *pgxpool.Config // of the connection that listens; nil: it polls only
	sql      *statements
	wrong    error // the first wrong setting
	instance string
	gate     lockerkit.Gate

	// Set by Open, before any other method but Migrate and Schema.
	waker  locker.Waker
	pool   *pgxpool.Pool
	ctx    context.Context // of the locker's goroutines
	cancel context.CancelFunc
	own    sync.WaitGroup  // the goroutines that end with ctx; none begins after Close
	wire   context.Context // of the connections, which end with it
	cut    context.CancelFunc

	calls   chan *call    // to the workers
	groups  chan *group   // to the workers
	beside  chan struct{} // has an element for each connection in use that is no worker's
	bell    chan struct{} // has one element if there is something to poll for
	closing chan struct{} // closed by Close
	hears   atomic.Bool   // the connection that listens has heard itself

	mu        sync.Mutex // guards what follows; never held across I/O or a callback
	listening bool       // the goroutine that listens was started
	queued    map[string]*locker.Claim
	owned     map[string]owned // by owner id, until somebody waits
}

var (
	_ locker.Locker       = (*Locker)(nil)
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Migrator     = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
)

// New returns a locker for the server of pool. It only keeps its settings.
// guard.New opens it, and returns an error if a setting is wrong. The locker
// opens connections of its own as pool would. pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Locker {
	if pool == nil {
		return &Locker{wrong: invalid("the pool is nil"), gate: lockerkit.Gate{Store: "postgreslocker"}}
	}
	return newLocker(pool.Config(), opts...)
}

// newLocker owns config.
func newLocker(config *pgxpool.Config, opts ...Option) *Locker {
	l := &Locker{
		config: config, instance: lockerkit.NewID(), gate: lockerkit.Gate{Store: "postgreslocker"},
		calls: make(chan *call, 1024), groups: make(chan *group),
		beside: make(chan struct{}, besides), bell: make(chan struct{}, 1),
		closing: make(chan struct{}), queued: make(map[string]*locker.Claim), owned: make(map[string]owned),
	}
	s := settings{table: "guard_lease"}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			s.nilOpt = true
			continue
		}
		o.apply(&s)
	}
	l.wrong = l.prepare(&s)
	return l
}

// prepare checks the settings.
func (l *Locker) prepare(s *settings) (err error) {
	if s.nilOpt {
		return invalid("an option is nil")
	}
	if s.pollOnly && s.listen != "" {
		return invalid("WithPollOnly and WithListen exclude each other")
	}
	if l.sql, err = statementsFor(s.table, version); err != nil {
		return err
	}
	l.config.MaxConns, l.config.MinConns, l.config.MinIdleConns = workers+besides+dying, 0, 0
	conn := l.config.ConnConfig
	complete(conn)
	switch {
	case s.listen != "":
		if l.listenAt, err = pgxpool.ParseConfig(s.listen); err != nil {
			return invalid("the address of WithListen is wrong") // pgx's error may show a password
		}
		complete(l.listenAt.ConnConfig)
	case !s.pollOnly && !s.pooler:
		l.listenAt = l.config.Copy()
	}
	if s.pooler {
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	}
	return nil
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

// Open checks the settings and starts the locker's goroutines. It sends
// nothing. A wrong setting is a [locker.ErrInvalidOption], and so is a second
// Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.gate.Open(func() (err error) {
		if l.wrong != nil {
			return l.wrong
		}
		l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the locker, until Close
		l.wire, l.cut = context.WithCancel(context.Background())   //nolint:forbidigo // of the locker, until Close
		if l.listenAt != nil {
			l.listenAt = l.wired(l.listenAt)
		}
		if l.pool, err = pgxpool.NewWithConfig(l.ctx, l.wired(l.config)); err != nil {
			l.cancel()
			l.cut()
			return invalid("the pool cannot be made")
		}
		l.waker = w
		for range workers {
			l.own.Go(l.work)
		}
		l.own.Go(l.poll)
		l.own.Go(l.sweep)
		return nil
	})
}

// Close ends the locker and closes its own connections. It does at once all
// that is left to clean up, and takes its claims out of the queues. If the
// server gives no answer, that takes about half a minute. If ctx ends first,
// Close returns ctx's error, and gives up what is left. Keys then end at their
// TTL. Close is idempotent.
func (l *Locker) Close(ctx context.Context) error {
	err := l.gate.Close(ctx, l.shutDown)
	if err != nil {
		l.cancel()
	}
	return err
}

func (l *Locker) shutDown() {
	close(l.closing)
	l.gate.Wait()
	var leaving sync.WaitGroup
	for _, c := range l.waiting() {
		leaving.Go(func() { l.insist(ending{key: c.Key, owner: c.Owner}, time.Now().Add(leaveMax)) })
	}
	leaving.Wait()
	l.cancel()
	l.own.Wait()
	defer l.cut()
	defer time.AfterFunc(closeMax, l.cut).Stop()
	l.pool.Close()
}

// wired returns config with connections that end with l.wire. pgx itself spends
// up to 15 s on each connection that has become silent.
func (l *Locker) wired(config *pgxpool.Config) *pgxpool.Config {
	config = config.Copy()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wire{c, context.AfterFunc(l.wire, func() { _ = c.Close() })}, nil
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

// waiting returns the claims that are in a queue.
func (l *Locker) waiting() (cs []*locker.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.queued {
		cs = append(cs, c)
	}
	return cs
}

// pause waits for d and reports true, unless the locker ends or, if hurry, is
// closed.
func (l *Locker) pause(d time.Duration, hurry <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-hurry:
		return false
	case <-l.ctx.Done():
		return false
	}
}
