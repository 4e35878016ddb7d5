package main

import (
	"context"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/natslocker"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
)

// startNATS has no rival, because there is no lock on NATS that services use.
func startNATS(ctx context.Context, p *place) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	servers, err := natstest.New(ctx, 1, dir, natstest.Settings{Sync: true})
	for _, s := range servers {
		p.ending(s.Kill)
	}
	if err != nil {
		return err
	}
	addr := servers[0].Addr
	p.open = func(int) (locker.Locker, func(), error) {
		nc, err := nats.Connect("nats://" + addr)
		if err != nil {
			return nil, nil, err
		}
		return natslocker.New(nc, "guard"), nc.Close, nil
	}
	return natstest.Create(ctx, addr, natstest.Config("guard", 1))
}
