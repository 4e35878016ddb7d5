package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// recorder is a store that keeps its records though it is wrapped.
type recorder struct{ guard.Locker }

func (r recorder) marker() locker.Marker { return r.Locker.(locker.Marker) }

func (r recorder) Keep(ctx context.Context, c, next *locker.Claim, k locker.Record) (locker.Released, error) {
	return r.marker().Keep(ctx, c, next, k)
}

func (r recorder) Forget(ctx context.Context, key string) (bool, error) {
	return r.marker().Forget(ctx, key)
}

func (r recorder) Begin(ctx context.Context, c *locker.Claim, k locker.Record) (string, error) {
	return r.marker().Begin(ctx, c, k)
}

func (r recorder) Unmark(c *locker.Claim) { r.marker().Unmark(c) }

// noRecall finds no record.
type noRecall struct{ recorder }

func newNoRecall(l guard.Locker, _ *redis.Client) guard.Locker { return noRecall{recorder{l}} }

func (n noRecall) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := *c
	d.Recall = false
	a, err := n.Locker.Acquire(ctx, &d, t)
	c.State, c.Holder.Instance = d.State, d.Holder.Instance
	return a, err
}

// noRecord says that it has kept a record, and only frees the key.
type noRecord struct{ recorder }

func newNoRecord(l guard.Locker, _ *redis.Client) guard.Locker { return noRecord{recorder{l}} }

func (n noRecord) Keep(ctx context.Context, c, next *locker.Claim, _ locker.Record) (locker.Released, error) {
	return n.Release(ctx, c, next)
}

// noMark says that it has marked a key.
type noMark struct{ recorder }

func newNoMark(l guard.Locker, _ *redis.Client) guard.Locker { return noMark{recorder{l}} }

func (noMark) Begin(context.Context, *locker.Claim, locker.Record) (string, error) { return "", nil }
