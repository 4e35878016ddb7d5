package ctl

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testproc"
)

// runAt runs guardctl with exactly these arguments.
func runAt(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(strings.NewReader(""), &out, &out).Run(t.Context(), append([]string{"guardctl"}, args...))
	return out.String(), err
}

// wantsHeld fails t unless guardctl, with these flags, sees that stock:42 is
// held.
func wantsHeld(t *testing.T, flags ...string) {
	t.Helper()
	out, err := runAt(t, append(flags, "show", "--json", "stock:42")...)
	if err != nil {
		t.Errorf("%v: %v", flags, err)
		return
	}
	var state guard.KeyState
	decode(t, out, &state)
	if !state.Held || state.Holder.PID != os.Getpid() {
		t.Errorf("%v: %s", flags, out)
	}
}

func TestBySentinelGuardctlFindsThePrimaryAlsoAfterAFailover(t *testing.T) {
	set := redistest.StartSentinel(t)
	addrs := set.Addrs()
	flags := []string{
		"--url", "redis://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2], "--sentinel",
		redisproc.SentinelName,
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisproc.SentinelName, SentinelAddrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	g := instance(t, rdb, guard.WithTTL(time.Minute))
	l, err := g.Acquire(t.Context(), "stock:42")
	if err != nil {
		t.Fatal(err)
	}
	wantsHeld(t, flags...)
	if out, err := runAt(t, append(flags, "check")...); err != nil || !strings.Contains(out, "ok") {
		t.Errorf("check: %v\n%s", err, out)
	}
	if _, err := runAt(t, "--timeout", "2s", "--url", "redis://"+addrs[0], "--sentinel", "nobody",
		"check"); err == nil {
		t.Error("check passes for a primary that no sentinel knows")
	}
	if err := set.Failover(); err != nil {
		t.Fatal(err)
	}
	testguard.Eventually(t, "guardctl follows", func() bool {
		out, err := runAt(t, append(flags, "ls")...)
		return err == nil && strings.Contains(out, "stock:42")
	})
	_ = l.Release(t.Context())
}

func TestThroughTLSGuardctlTrustsWhomItIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := newAuthority(t, dir)
	certFile, keyFile := authority.issue(t, "server")
	clientCert, clientKey := authority.issue(t, "client")
	addrs, err := testproc.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	s := redistest.Start(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", authority.file)
	l, err := instance(t, redistest.Client(t, s.Addr)).Acquire(t.Context(), "stock:42")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release(t.Context()) }()

	url := "rediss://127.0.0.1:" + port
	whole := []string{"--url", url, "--tls-ca", authority.file, "--tls-cert", clientCert, "--tls-key", clientKey}
	wantsHeld(t, whole...)
	wantsHeld(t, append(whole, "--tls-name", "redis.test")...)
	if out, err := runAt(t, append(whole, "check")...); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	for what, c := range map[string]struct {
		says  string // "" if the server hangs up, which shows in many ways
		flags []string
	}{
		"a server that nobody vouches for": {
			"certificate",
			[]string{"--url", url, "--tls-cert", clientCert, "--tls-key", clientKey},
		},
		"a client without a certificate": {"", []string{"--url", url, "--tls-ca", authority.file}},
		"a server of another name":       {"elsewhere.test", append(whole, "--tls-name", "elsewhere.test")},
		"flags without TLS": {
			"rediss://",
			[]string{"--url", "redis://" + s.Addr, "--tls-ca", authority.file},
		},
		"a file that is not there": {
			"nothing.pem",
			[]string{"--url", url, "--tls-ca", filepath.Join(dir, "nothing.pem")},
		},
		"a file that has no certificate": {"no certificate", []string{"--url", url, "--tls-ca", clientKey}},
		"a key that is not the certificate": {
			"private key",
			[]string{"--url", url, "--tls-cert", clientCert, "--tls-key", keyFile},
		},
	} {
		if out, err := runAt(t, append(c.flags, "--timeout", "3s", "show", "stock:42")...); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q\n%s", what, err, c.says, out)
		}
	}
}

// authority signs certificates that are valid while the test runs.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = newKey(t)
	a.file = a.write(t, "ca.pem", "CERTIFICATE", a.sign(t, a.cert, a.key))
	return a
}

// issue writes a certificate for this machine and its key.
func (a *authority) issue(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
	}, key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+".key", "PRIVATE KEY", private)
}

func (a *authority) sign(t *testing.T, cert *x509.Certificate, key *ecdsa.PrivateKey) (der []byte) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) (file string) {
	t.Helper()
	file = filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
