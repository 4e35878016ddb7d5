package redlock_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
	"github.com/go-lockguard/guard/locker/redlock"
)

// BenchmarkPrice measures a quorum beside one server, all on one machine.
// Compare the rows of a run and not the figures.
//
//	go test -run xxx -bench Price -benchtime 2s ./locker/redlock
func BenchmarkPrice(b *testing.B) {
	all := clientsOf(b, redistest.StartN(b, 5))
	stores := []struct {
		name string
		open func() guard.Locker
	}{
		{"1", func() guard.Locker { return redislocker.New(all[0]) }},
		{"3", func() guard.Locker { return redlock.New(all[:3], redlock.WithRestartDelay(0)) }},
		{"5", func() guard.Locker { return redlock.New(all, redlock.WithRestartDelay(0)) }},
	}
	for _, c := range []struct {
		name string
		opts []guard.Option
		run  func(b *testing.B, gs []*guard.Guard)
	}{
		{"one_caller", nil, ownKey},
		{"one_caller_fenced", []guard.Option{guard.WithFencing()}, ownKey},
		{"many_callers", nil, ownKeys},
		{"hot_key", []guard.Option{guard.WithMaxWait(time.Minute)}, hotKey},
	} {
		for _, s := range stores {
			b.Run(c.name+"/nodes="+s.name, func(b *testing.B) {
				var gs []*guard.Guard
				for range 4 {
					g, err := guard.New(s.open(), c.opts...)
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { _ = g.Close(context.WithoutCancel(b.Context())) })
					gs = append(gs, g)
				}
				c.run(b, gs)
			})
		}
	}
}

func nothing(context.Context) error { return nil }

func ownKey(b *testing.B, gs []*guard.Guard) {
	b.Helper()
	for range b.N {
		if err := gs[0].Do(b.Context(), "own", nothing); err != nil {
			b.Error(err)
		}
	}
}

// ownKeys lets many callers of one process each lock a key of their own.
func ownKeys(b *testing.B, gs []*guard.Guard) {
	b.Helper()
	var callers atomic.Int64
	b.SetParallelism(8) // times GOMAXPROCS, the same for all rows
	b.RunParallel(func(pb *testing.PB) {
		key := "own" + strconv.FormatInt(callers.Add(1), 10)
		for pb.Next() {
			if err := gs[0].Do(b.Context(), key, nothing); err != nil {
				b.Error(err)
			}
		}
	})
}

// hotKey lets one caller of each process lock the same key.
func hotKey(b *testing.B, gs []*guard.Guard) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error)
	for _, g := range gs {
		go func() { // ends when all turns are taken
			var err error
			for err == nil && left.Add(-1) >= 0 {
				err = g.Do(b.Context(), "hot", nothing)
			}
			done <- err
		}()
	}
	for range gs {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
