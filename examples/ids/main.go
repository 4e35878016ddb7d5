// Ids numbers things that only have to be different, such as orders. Each
// instance takes a segment of 1,000 numbers with one INCRBY and gives them out
// from memory, so that no lock is needed. An instance that ends leaves a gap,
// and the numbers of two instances are not in the order of time. A failover
// that loses the last INCRBY gives numbers out twice: if Redis may lose writes,
// keep the counter in a database. Numbers without a gap are in examples/floors.
//
//	go run ./examples/ids    # 30,000 ids from three instances; needs no Redis
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const (
	counter = "seq:order"
	size    = 1000
)

// segment gives out the numbers of one instance. It is made by newSegment and
// safe for concurrent use.
type segment struct {
	rdb       *redis.Client
	turn      chan struct{} // has an element while a call uses next and end
	next, end int64         // numbers from next up to end, without end, are left
}

func newSegment(rdb *redis.Client) *segment {
	return &segment{rdb: rdb, turn: make(chan struct{}, 1)}
}

// id returns a number that no other call has got. It asks Redis once for each
// 1,000 numbers; calls wait for that answer until their ctx ends.
func (s *segment) id(ctx context.Context) (int64, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if s.next == s.end {
		last, err := s.rdb.IncrBy(ctx, counter, size).Result()
		if err != nil {
			return 0, err
		}
		s.next, s.end = last-size+1, last+1
	}
	s.next++
	return s.next - 1, nil
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run has a crowd take ids. Redis is embedded.
func run(w io.Writer) error {
	store, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer store.Close()
	different, segments, err := crowd(store.Addr(), 3, 100, 100)
	fmt.Fprintf(w, "%d different ids, %d requests to Redis\n", different, segments)
	return err
}

// crowd has callers of some instances take ids at the same time, so many each.
// It returns how many different ids and how many segments they got.
func crowd(addr string, instances, callers, each int) (different, segments int, err error) {
	ctx := context.Background()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards seen and errs
		seen = map[int64]bool{}
		errs []error
	)
	for range instances {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		s := newSegment(rdb)
		for range callers {
			all.Go(func() { // ends when it has its ids
				for range each {
					id, err := s.id(ctx)
					mu.Lock()
					seen[id], errs = true, append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	last, err := rdb.Get(ctx, counter).Int()
	return len(seen), last / size, errors.Join(append(errs, err)...)
}
