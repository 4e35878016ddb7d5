package postgreslocker

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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

// aside lends f a connection, for a request that is not a call. Such requests
// wait for one another, so that calls need not wait for them.
func (l *Locker) aside(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	select {
	case l.beside <- struct{}{}:
		defer func() { <-l.beside }()
	case <-ctx.Done():
		return errUnsent
	}
	return l.on(ctx, f)
}

// on lends f a connection. If the server takes no writes, it may be the old
// primary of a failover, and all connections are made anew.
func (l *Locker) on(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	err := l.pool.AcquireFunc(ctx, f)
	if notPrimary(err) {
		l.pool.Reset()
	}
	return err
}

// retry calls f, and again if the server asks for it or has not seen the
// request.
func (l *Locker) retry(ctx context.Context, f func() error) error {
	err := f()
	for range 2 {
		if err == nil || ctx.Err() != nil || !again(err) {
			break
		}
		err = f()
	}
	return err
}

// patience returns until when the caller with this context waits.
func patience(ctx context.Context) time.Time {
	if end, ok := ctx.Deadline(); ok {
		return end
	}
	return time.Now().Add(tripMax)
}
