package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachOrderIsWorkedOnByOneConsumerAtATimeAndNoMessageIsLost(t *testing.T) {
	const orders, messages = 3, 60
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.XGroupCreateMkStream(t.Context(), stream, group, "0").Err(); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		values := map[string]any{"order": i % orders, "event": fmt.Sprint("event ", i)}
		if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: values}).Err(); err != nil {
			t.Fatal(err)
		}
	}

	var mu sync.Mutex
	working, died := map[any]int{}, map[string]bool{}
	work := func(ctx context.Context, msg redis.XMessage) error {
		order := msg.Values["order"]
		mu.Lock()
		if working[order]++; working[order] > 1 {
			t.Errorf("two at once on order %s", order)
		}
		event, _ := msg.Values["event"].(string)
		dies := strings.HasSuffix(event, "3") && !died[msg.ID]
		died[msg.ID] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			working[order]--
		}()
		if err := (book{rdb}).enter(ctx, msg); err != nil {
			return err
		}
		if dies {
			return errors.New("done, and not confirmed: it is delivered again")
		}
		return nil
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		g, err := guard.New(redislocker.New(rdb), guard.WithMaxWait(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		c := consumer{rdb: rdb, guard: g, name: fmt.Sprint("c", i), again: 50 * time.Millisecond, work: work}
		wg.Go(func() {
			_ = c.run(ctx)
			_ = g.Close(context.WithoutCancel(ctx))
		})
	}
	defer wg.Wait()
	defer cancel()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := rdb.XPending(t.Context(), stream, group).Result()
		if err != nil {
			t.Fatal(err)
		}
		entered := 0
		for order := range orders {
			entered += int(rdb.HLen(t.Context(), fmt.Sprint("order:", order)).Val())
		}
		if p.Count == 0 && entered == messages {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages are entered, %d are not confirmed", entered, messages, p.Count)
		}
	}
}
