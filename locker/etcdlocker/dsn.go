package etcdlocker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func init() {
	locker.RegisterDSN("etcd", fromDSN)
	locker.RegisterDSN("etcds", fromDSN)
}

// errDSN is the error of every wrong address. The error shows no part of the
// address, because any part may belong to a password.
var errDSN = lockerkit.Invalid(store, "the address is wrong: want "+
	"etcd://[user:password@]host:port,host:port[?prefix=guard/], or etcds:// for TLS, with "+
	"?ca=FILE&cert=FILE&key=FILE if the system's certificates are not enough; "+
	"in users and passwords, / ? # @ are written %%2F %%3F %%23 %%40")

// fromDSN serves [locker.FromDSN]. Each host has a client of its own, as with
// [WithMembers]. Open makes the clients, because a client has goroutines.
func fromDSN(dsn string) (locker.Locker, error) {
	scheme, rest, _ := strings.Cut(dsn, "://")
	u, hosts, err := dsnURL(rest)
	if err != nil {
		return nil, err
	}
	config := clientv3.Config{
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: time.Second,
		Username: u.User.Username(), Logger: zap.NewNop(),
	}
	config.Password, _ = u.User.Password()
	if (config.Username == "") != (config.Password == "") {
		return nil, errDSN // the client would send neither
	}
	web, q := "http://", u.Query()
	if strings.EqualFold(scheme, "etcds") {
		web = "https://"
		if config.TLS, err = dsnTLS(q.Get("ca"), q.Get("cert"), q.Get("key")); err != nil {
			return nil, err
		}
	} else if q.Has("ca") || q.Has("cert") || q.Has("key") {
		return nil, errDSN
	}
	l := New(nil)
	if q.Has("prefix") {
		l.rows.prefix = q.Get("prefix")
	}
	l.rows.dial = func() ([]*clientv3.Client, error) { return dialAll(config, web, hosts) }
	return l, nil
}

// dsnURL reads an address from behind its scheme.
func dsnURL(rest string) (u *url.URL, hosts []string, err error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if strings.Contains(rest[end:], "@") { // most likely a password that is not escaped
		return nil, nil, errDSN
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	hosts = strings.Split(rest[at:end], ",")
	for _, host := range hosts {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return nil, nil, errDSN
		}
	}
	u, err = url.Parse("etcd://" + rest[:at] + hosts[0] + rest[end:])
	if err != nil || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return nil, nil, errDSN
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, errDSN
	}
	for name := range q {
		if name != "prefix" && name != "ca" && name != "cert" && name != "key" {
			return nil, nil, errDSN
		}
	}
	return u, hosts, nil
}

// dsnTLS reads the files that an address names.
func dsnTLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca) //nolint:gosec // the user names it
		c.RootCAs = x509.NewCertPool()
		if err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, lockerkit.Invalid(store, "the file of ca in the address cannot be read, or has no certificate")
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, lockerkit.Invalid(store, "the files of cert and key in the address are no pair in PEM")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dialAll makes a client for each host. dialAll sends nothing.
func dialAll(config clientv3.Config, web string, hosts []string) (members []*clientv3.Client, err error) {
	for _, host := range hosts {
		config.Endpoints = []string{web + host}
		c, err := newClient(config)
		if err != nil {
			return members, errDSN
		}
		members = append(members, c)
	}
	return members, nil
}

// newClient makes a client that logs in with its first request. The client's
// own constructor would block until a server has answered.
func newClient(config clientv3.Config) (*clientv3.Client, error) {
	var made atomic.Bool
	config.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if !made.Load() {
			return rpctypes.ErrGRPCAuthNotEnabled // the client then asks again when a request is refused
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})}
	c, err := clientv3.New(config)
	made.Store(true)
	return c, err
}
