package certmagiclock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
	certmagiclock "github.com/go-lockguard/guard/locksfor/certmagic"
)

const name = "issue_cert_example.com"

var key = guard.Key("certmagic", name)

// unlocked is a storage without locks.
type unlocked struct{ *certmagic.FileStorage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

// authority issues certificates and counts them.
type authority struct{ issued atomic.Int32 }

func (*authority) IssuerKey() string { return "authority" }

func (a *authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.issued.Add(1)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		DNSNames: csr.DNSNames,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, csr.PublicKey, own)
	return &certmagic.IssuedCertificate{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, err
}

func TestOneInstanceObtainsACertificateOnRedis(t *testing.T) {
	server, files := redistest.Start(t), &certmagic.FileStorage{Path: t.TempDir()}
	var a authority
	var wg sync.WaitGroup
	for range 5 {
		g := testguard.New(t, redislocker.New(redistest.Client(t, server.Addr)))
		config := certmagic.Config{Storage: certmagiclock.New(g, unlocked{files}), Issuers: []certmagic.Issuer{&a}}
		var cache *certmagic.Cache
		cache = certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) {
				return certmagic.New(cache, config), nil
			},
		})
		defer cache.Stop()
		wg.Go(func() {
			if err := certmagic.New(cache, config).ObtainCertSync(t.Context(), "example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := a.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
}

func TestALockIsHeldUntilItsUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		s := certmagiclock.New(g.Guard, unlocked{})
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // an order
		if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("TryLock of a held name: %v, %v", ok, err)
		}
		if err := s.RenewLockLease(t.Context(), name, time.Minute); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Lock(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock of a held name: %v", err)
		}
		if err := s.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("TryLock of a free name: %v, %v", ok, err)
		}
		if err := errors.Join(s.Unlock(t.Context(), name), s.Unlock(t.Context(), name)); err != nil {
			t.Error(err)
		}
	})
}

func TestALostLeaseIsToldToItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		s := certmagiclock.New(g.Guard, unlocked{})
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		g.Lose(key)
		time.Sleep(10 * time.Second) // a renewal
		if err := s.RenewLockLease(t.Context(), name, time.Minute); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("RenewLockLease: %v", err)
		}
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := s.Unlock(t.Context(), name); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("Unlock: %v", err)
		}
		if err := s.RenewLockLease(t.Context(), name, time.Minute); err != nil {
			t.Errorf("the next one: %v", err)
		}
		if err := s.Unlock(t.Context(), name); err != nil {
			t.Errorf("the next one: %v", err)
		}
	})
}
