package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// noRecall finds no record.
type noRecall struct{ guard.Locker }

func newNoRecall(l guard.Locker, _ *redis.Client) guard.Locker { return noRecall{l} }

func (n noRecall) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := *c
	d.Recall = false
	a, err := n.Locker.Acquire(ctx, &d, t)
	c.State, c.Holder.Instance = d.State, d.Holder.Instance
	return a, err
}

// noRecord says that it has kept a record, and only frees the key.
type noRecord struct{ guard.Locker }

func newNoRecord(l guard.Locker, _ *redis.Client) guard.Locker { return noRecord{l} }

func (n noRecord) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	e.Record = locker.Record{}
	return n.Locker.Release(ctx, c, e)
}

// noMark says that it has marked a key.
type noMark struct{ guard.Locker }

func newNoMark(l guard.Locker, _ *redis.Client) guard.Locker { return noMark{l} }

func (noMark) Begin(context.Context, *locker.Claim, locker.Record) (string, error) { return "", nil }
