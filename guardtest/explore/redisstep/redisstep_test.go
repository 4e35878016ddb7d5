package redisstep_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/redisfence"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/guardtest/explore/redisstep"
	"github.com/go-lockguard/guard/internal/testsize"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type seller func(ctx context.Context, g *guard.Guard, rdb *redis.Client, order string) error

// selling is a scenario: two orders for a stock of three.
func selling(sell seller) func(*explore.World) {
	return func(w *explore.World) {
		r := redisstep.New(w)
		_ = r.Set("stock", "3")
		for _, order := range []string{"A", "B"} {
			w.Deliver(order, func(ctx context.Context, g *guard.Guard) error { return sell(ctx, g, r.Client(), order) })
		}
		w.Check(func() error {
			sold := 0
			for _, order := range []string{"A", "B"} {
				if r.Exists("order:" + order) {
					sold++
				}
			}
			if left, _ := r.Get("stock"); left != strconv.Itoa(3-sold) {
				return fmt.Errorf("%d sold, and %s of 3 are left", sold, left)
			}
			return nil
		})
	}
}

func sellPlainly(ctx context.Context, g *guard.Guard, rdb *redis.Client, order string) error {
	return g.Do(ctx, "stock", func(ctx context.Context) error {
		if n, err := rdb.Exists(ctx, "order:"+order).Result(); err != nil || n > 0 {
			return err
		}
		left, err := rdb.Get(ctx, "stock").Int()
		if err != nil {
			return err
		}
		_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "stock", left-1, 0)
			p.Set(ctx, "order:"+order, 1, 0)
			return nil
		})
		return err
	})
}

var sellScript = redisfence.NewScript(`
	if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
	redis.call('SET', KEYS[1], ARGV[1])
	redis.call('SET', KEYS[2], 1)
	return 1`)

func sellFenced(ctx context.Context, g *guard.Guard, rdb *redis.Client, order string) error {
	return g.With(guard.WithFencing()).Do(ctx, "stock", func(ctx context.Context) error {
		token, err := guard.FencingToken(ctx)
		if err != nil {
			return err
		}
		f := redisfence.For("stock")
		text, err := redisfence.Get(ctx, rdb, f, token, "stock")
		if err != nil {
			return err
		}
		left, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		return sellScript.Run(ctx, rdb, f, token, []string{"stock", "order:" + order}, left-1).Err()
	})
}

var deductScript = redis.NewScript(`
	if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
	if tonumber(redis.call('GET', KEYS[1])) < 1 then return -1 end
	redis.call('DECR', KEYS[1])
	redis.call('SET', KEYS[2], 1)
	return 1`)

func sellAtomically(ctx context.Context, _ *guard.Guard, rdb *redis.Client, order string) error {
	n, err := deductScript.Run(ctx, rdb, []string{"stock", "order:" + order}).Int()
	if n < 0 {
		return errors.New("sold out")
	}
	return err
}

func sellByWatching(ctx context.Context, _ *guard.Guard, rdb *redis.Client, order string) error {
	err := rdb.Watch(ctx, func(tx *redis.Tx) error {
		if n, err := tx.Exists(ctx, "order:"+order).Result(); err != nil || n > 0 {
			return err
		}
		left, err := tx.Get(ctx, "stock").Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "stock", left-1, 0)
			p.Set(ctx, "order:"+order, 1, 0)
			return nil
		})
		return err
	}, "stock", "order:"+order)
	if errors.Is(err, redis.TxFailedErr) {
		return nil // somebody was quicker
	}
	return err
}

func TestStockInRedis(t *testing.T) {
	for name, c := range map[string]struct {
		sell   seller
		breaks string // the step in the story
	}{
		"Do":         {sellPlainly, "set stock 2"},
		"redisfence": {sellFenced, ""},
		"a script":   {sellAtomically, ""},
		"WATCH":      {sellByWatching, ""},
	} {
		t.Run(name, func(t *testing.T) {
			most := testsize.Pick(200, 60)
			if c.breaks != "" {
				most = 1000
			}
			before := time.Now()
			story := explore.Find(t, selling(c.sell), explore.Runs(most), explore.Level(2))
			t.Logf("%v\n%s", time.Since(before), story)
			if (story != "") != (c.breaks != "") || !strings.Contains(story, c.breaks) {
				t.Errorf("want broken: %t, by %q", c.breaks != "", c.breaks)
			}
		})
	}
}

// A lost answer is an error of the command, and of all in its pipeline.
func TestACommandWithoutAnAnswerHasAnError(t *testing.T) {
	lost := 0
	explore.Test(t, func(w *explore.World) {
		r := redisstep.New(w)
		w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
			var cs []redis.Cmder
			cs, err := r.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "a")
				p.Incr(ctx, "b")
				return nil
			})
			if errors.Is(err, explore.ErrNoAnswer) {
				lost++
				for _, c := range cs {
					if !errors.Is(c.Err(), explore.ErrNoAnswer) {
						return fmt.Errorf("%s: %w", c, c.Err())
					}
				}
				return nil
			}
			return err
		})
		w.Check(func() error {
			a, _ := r.Get("a")
			if b, _ := r.Get("b"); a != b {
				return fmt.Errorf("half of a pipeline: a is %s, b is %s", a, b)
			}
			return nil
		})
	})
	if lost != 2 {
		t.Errorf("%d runs lost an answer or a request, want 2", lost)
	}
}

// A command of a pipeline that has an error of its own gives it to no other.
func TestAnErrorOfACommandIsNoneOfItsPipeline(t *testing.T) {
	explore.Test(t, func(w *explore.World) {
		r := redisstep.New(w)
		w.Go("A", func(ctx context.Context, _ *guard.Guard) error {
			var set *redis.StatusCmd
			_, err := r.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Get(ctx, "none")
				set = p.Set(ctx, "stock", 3, 0)
				return nil
			})
			if !errors.Is(err, redis.Nil) {
				return err
			}
			return set.Err()
		})
	}, explore.Level(1))
}
