package natstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/natslocker"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
)

// The code of docs/stores.md.

func openNATS(url string) (*guard.Guard, *nats.Conn, error) {
	nc, err := nats.Connect(url, // nats://a:4222,nats://b:4222
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.PingInterval(2*time.Second))
	if err != nil {
		return nil, nil, err
	}
	g, err := guard.New(natslocker.New(nc, "guard"), guard.WithTTL(5*time.Second)) // in the bucket KV_guard
	return g, nc, err
}

func TestTheCodeOfThePagesRuns(t *testing.T) {
	s := start(t)
	create(t, connect(t, s.ClientURL()), natstest.Config("guard", 1))
	g, nc, err := openNATS(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	patient := g.With(guard.WithMaxWait(testguard.Patience))
	err = errors.Join(
		patient.Do(t.Context(), "sku:42", func(context.Context) error { return nil }),
		g.Close(t.Context()),
	)
	if err != nil {
		t.Error(err)
	}
}
