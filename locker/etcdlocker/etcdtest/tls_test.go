package etcdtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testcert"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// certificate writes a certificate and its key to files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	public, secret := testcert.New(t)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(os.WriteFile(cert, public, 0o600), os.WriteFile(key, secret, 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestTLSIsTheClients(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	m := etcdtest.Start(t, 1, etcdtest.Settings{Cert: cert, Key: key})[0]

	config := etcdtest.Config("https://" + m.Addr)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate: ", err)
	}
	config.TLS = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	client := func() *clientv3.Client {
		c, err := clientv3.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	g, _ := newGuard(t, client(), "guard/")
	handsOver(t, g, client())
	if err := g.Check(t.Context()); err != nil {
		t.Error(err)
	}

	files := url.Values{"ca": {cert}, "cert": {cert}, "key": {key}}
	byAddress(t, "etcds://"+m.Addr+"?"+files.Encode(), nil)
	files.Del("cert")
	files.Del("key")
	byAddress(t, "etcds://"+m.Addr+"?"+files.Encode(), guard.ErrUnavailable)
	byAddress(t, "etcd://"+m.Addr, guard.ErrUnavailable)
}

// byAddress lets a guard of the address run a function. If it wants an error,
// the guard has one second to look at a key.
func byAddress(t *testing.T, dsn string, want error) {
	t.Helper()
	l, err := locker.FromDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(l, guard.WithMaxWait(testguard.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		err = g.Do(t.Context(), "k", nothing)
	} else {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.Inspect(ctx, "k")
	}
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", dsn, err, want)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheLoginOfAnAddressNeedsNoServerToBeThere(t *testing.T) {
	t.Parallel()
	byAddress(t, "etcd://app:app@127.0.0.1:1", guard.ErrUnavailable)
	m := etcdtest.Start(t, 1, etcdtest.Settings{})[0]
	byAddress(t, "etcd://app:app@"+m.Addr, nil) // without authentication the password is not asked for
	withAuth(t, etcdtest.Client(t, m.Addr))
	byAddress(t, "etcd://app:app@"+m.Addr, nil)
	byAddress(t, "etcd://app:app@"+m.Addr+",127.0.0.1:1?prefix=guard/app/", nil)
}
