package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// 100 callers at each of three instances take 100 ids each.
func Example() {
	fmt.Println(run(os.Stdout))
	// Output:
	// 30000 different ids, 30 requests to Redis
	// <nil>
}

// A segment that was not confirmed gives out nothing, and the next call asks
// again.
func TestAnIDNeedsAnAnswer(t *testing.T) {
	store := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
	defer rdb.Close()
	s := newSegment(rdb)
	store.SetError("LOADING")
	if id, err := s.id(t.Context()); err == nil {
		t.Fatalf("got %d without an answer", id)
	}
	store.SetError("")
	if id, err := s.id(t.Context()); id != 1 || err != nil {
		t.Fatalf("got %d, %v; want 1", id, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.turn <- struct{}{} // another call waits for Redis
	if _, err := s.id(ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
