package ctl

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const closeLimit = time.Second

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "url", Aliases: []string{"u"}, Value: "redis://localhost:6379",
			Sources: cli.EnvVars("GUARD_REDIS_URL", "REDIS_URL"),
			Usage: "the server: redis://user:password@host:port/database, rediss:// with TLS; more nodes as " +
				"?addr=host:port; for other stores, see locker.FromDSN",
		},
		&cli.BoolFlag{
			Name: "cluster", Usage: "the URL is that of a node of a cluster",
			Sources: cli.EnvVars("GUARD_REDIS_CLUSTER"),
		},
		&cli.StringFlag{
			Name: "sentinel", Usage: "the URL is that of a Sentinel, for the primary of this `name`",
			Sources: cli.EnvVars("GUARD_REDIS_SENTINEL"),
		},
		&cli.StringFlag{
			Name: "prefix", Aliases: []string{"p"}, Value: "guard",
			Usage: "what the services give to redislocker.WithPrefix", Sources: cli.EnvVars("GUARD_PREFIX"),
		},
		&cli.StringFlag{Name: "tls-ca", Usage: "`file` with certificates to trust instead of the system's (PEM)"},
		&cli.StringFlag{Name: "tls-cert", Usage: "`file` with the client's certificate (PEM)"},
		&cli.StringFlag{Name: "tls-key", Usage: "`file` with its key (PEM)"},
		&cli.StringFlag{Name: "tls-name", Usage: "host `name` that the server's certificate must have, if not " +
			"that of the URL"},
		&cli.DurationFlag{Name: "timeout", Value: 10 * time.Second, Usage: "for one look at the server"},
		&cli.BoolFlag{Name: "json", Usage: "write JSON, a value to a line"},
	}
}

// withGuard calls do with a guard on the store that the flags name.
func withGuard(ctx context.Context, cmd *cli.Command, do func(g *guard.Guard) error) error {
	l, closeClient, err := open(cmd)
	if err != nil {
		return err
	}
	defer closeClient()
	return withLocker(ctx, l, do)
}

// withLocker calls do with a guard on l.
func withLocker(ctx context.Context, l locker.Locker, do func(g *guard.Guard) error, opts ...guard.Option) error {
	opts = append(opts, guard.WithName("guardctl"), guard.WithLogger(slog.New(slog.DiscardHandler)))
	g, err := guard.New(l, opts...)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		_ = g.Close(ctx)
	}()
	return do(g)
}

// open returns a locker on the store that the flags name, and a function that
// closes its client. It sends nothing.
func open(cmd *cli.Command) (l locker.Locker, closeClient func(), err error) {
	return openUnder(cmd, cmd.String("prefix"))
}

// isRedis reports whether the flags name Redis by its own URL.
func isRedis(cmd *cli.Command) bool {
	scheme, _, ok := strings.Cut(cmd.String("url"), ":")
	return !ok || scheme == "redis" || scheme == "rediss"
}

// openUnder is open with the prefix of a store that is Redis.
func openUnder(cmd *cli.Command, prefix string) (l locker.Locker, closeClient func(), err error) {
	if !isRedis(cmd) {
		l, err := openDSN(cmd, cmd.String("url"))
		return l, func() {}, err // Close of the guard closes the client
	}
	rdb, err := connect(cmd)
	if err != nil {
		return nil, nil, err
	}
	l = redislocker.New(rdb, redislocker.WithPrefix(prefix), redislocker.WithClientName("guardctl"))
	return l, func() { _ = rdb.Close() }, nil
}

// openDSN returns a locker for an address of which package locker knows more
// than the flags.
func openDSN(cmd *cli.Command, dsn string) (locker.Locker, error) {
	for _, name := range []string{"cluster", "sentinel", "prefix", "tls-ca", "tls-cert", "tls-key", "tls-name"} {
		if cmd.IsSet(name) {
			return nil, fmt.Errorf("--%s goes with redis:// and rediss:// only: other stores take all by --url", name)
		}
	}
	l, err := locker.FromDSN(dsn)
	if err != nil {
		const hint = "guardctl/all has the stores that guardctl has not"
		return nil, fmt.Errorf("--url is not understood: %w (%s)", err, hint)
	}
	return l, nil
}

// limited bounds one look at the server in time.
func limited(ctx context.Context, cmd *cli.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmd.Duration("timeout"))
}

// connect makes a client. It sends nothing.
func connect(cmd *cli.Command) (redis.UniversalClient, error) {
	text, master := cmd.String("url"), cmd.String("sentinel")
	if master != "" {
		return connectSentinel(cmd, text, master)
	}
	if cmd.Bool("cluster") {
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, errURL
		}
		if o.TLSConfig, err = secured(cmd, o.TLSConfig); err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, errURL
	}
	if o.TLSConfig, err = secured(cmd, o.TLSConfig); err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}

func connectSentinel(cmd *cli.Command, text, master string) (redis.UniversalClient, error) {
	if cmd.Bool("cluster") {
		return nil, errors.New("--cluster and --sentinel exclude each other")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	q := u.Query()
	q.Set("master_name", master)
	u.RawQuery = q.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, errURL
	}
	if o.TLSConfig, err = secured(cmd, o.TLSConfig); err != nil {
		return nil, err
	}
	return redis.NewFailoverClient(o), nil
}

// errURL does not contain the URL, because there may be a password in it.
var errURL = errors.New("--url is not understood: it looks like redis://user:password@host:6379/0, or " +
	"rediss:// with TLS")

// secured adds what the TLS flags say to the settings of a rediss:// URL.
func secured(cmd *cli.Command, c *tls.Config) (*tls.Config, error) {
	ca, cert, key, name := cmd.String("tls-ca"), cmd.String("tls-cert"), cmd.String("tls-key"), cmd.String("tls-name")
	if cmp.Or(ca, cert, key, name) == "" {
		return c, nil
	}
	if c == nil {
		return nil, errors.New("the TLS flags need a URL that begins with rediss://")
	}
	c.ServerName = cmp.Or(name, c.ServerName)
	if ca != "" {
		pem, err := os.ReadFile(ca) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
