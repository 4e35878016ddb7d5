package main

import (
	"context"
	"time"
)

const cutInterval = 100 * time.Millisecond

// takeOver measures how long a key stays free between two processes.
func takeOver(b *bench, c call) ([]run, error) { return b.passOn(c, nil) }

// cut is takeOver while subscriptions are cut. A lost message must not cost
// more than a poll.
func cut(b *bench, c call) ([]run, error) {
	return b.passOn(c, func(ctx context.Context) {
		t := time.NewTicker(cutInterval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				b.srv.Client.ClientKillByFilter(ctx, "type", "pubsub")
			}
		}
	})
}

func (b *bench) passOn(c call, beside func(context.Context)) ([]run, error) {
	all, _, err := b.measure(c.ctx, 2, job{
		Kind: "takeover", Library: c.library, Callers: 1, Duration: b.plan.TakeOver, MaxWait: patient,
	}, beside)
	v := waits(all.Waits)
	v["take-overs"] = float64(len(all.Waits))
	v["round trip ms"] = ms(quantile(sorted(all.Trips), 0.5))
	v["not served"] = float64(len(all.Refusals)) + float64(all.Failed)
	return b.one(c, all, v), err
}

// crowd measures the cost of waiting.
func crowd(b *bench, c call) ([]run, error) {
	j := job{Library: c.library, Duration: b.plan.Crowd, MaxWait: patient, Crowd: true}
	holder, waiters := j, j
	holder.Kind, holder.Callers = "holder", 1
	waiters.Kind, waiters.Callers, waiters.Proc = "waiters", b.plan.CrowdSize, 1
	all, each, err := b.measureJobs(c.ctx, []job{holder, waiters}, nil)
	if err != nil {
		return nil, err
	}
	return b.one(c, all, each[1].Values), nil
}

// manyLeases measures the cost of holding.
func manyLeases(b *bench, c call) ([]run, error) {
	all, each, err := b.measure(c.ctx, 1, job{
		Kind: "leases", Library: c.library, Callers: b.plan.LeaseCount, Duration: b.plan.Leases,
		MaxWait: patient, MaxHold: 5 * time.Minute,
	}, nil)
	if err != nil {
		return nil, err
	}
	v := each[0].Values
	v["cmds/s"] = perSecond(all.Commands, b.plan.Leases)
	return b.one(c, all, v), nil
}
