// Package docs_test has the code of the pages in this directory, so that it
// compiles and, where no database is needed, runs.
package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/redisfence"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var (
	errSoldOut = errors.New("sold out")
	errBusy    = errors.New("busy")
)

func pushFenced(ctx context.Context, rdb redis.Scripter, token uint64, order string) error {
	push := redisfence.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`) // at start-up, once
	err := push.Run(ctx, rdb, redisfence.For("orders"), token, []string{"orders"}, order).Err()
	return err
}

func open() (g *guard.Guard, end func()) {
	g, err := guard.New(memlocker.New())
	if err != nil {
		log.Fatal(err)
	}
	return g, func() { _ = g.Close(context.Background()) }
}

type (
	shop  struct{ left int }
	table map[string]int
)

func (s *shop) Left(context.Context, string) (int, error) { return s.left, nil }

func (s *shop) Sell(_ context.Context, sku string, left, price int) error {
	s.left = left
	fmt.Println("sold", sku, "for", price)
	return nil
}

func (t table) Ask(_ context.Context, sku string) (int, error) { return t[sku], nil }

func Example_aStep() {
	g, end := open()
	defer end()
	ctx, sku, stock, prices := context.Background(), "4711", &shop{left: 1}, table{"4711": 30}

	sell := func() error {
		err := g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
			left, err := stock.Left(ctx, sku)
			if err != nil || left == 0 {
				return errors.Join(err, errSoldOut)
			}
			price, err := prices.Ask(ctx, sku) // another service: no script can do this
			if err != nil {
				return err
			}
			return stock.Sell(ctx, sku, left-1, price)
		})
		return err
	}
	fmt.Println(sell())
	fmt.Println(sell())
	// Output:
	// sold 4711 for 30
	// <nil>
	// sold out
}

func Example_tryLock() {
	g, end := open()
	defer end()
	stock := g.With(guard.WithMaxWait(200*time.Millisecond), guard.WithName("stock"))
	sell := func(context.Context, string) error { return nil }

	deduct := func(ctx context.Context, sku string) error {
		err := stock.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
			return sell(ctx, sku) // with this ctx: it ends before the key can expire
		})
		if errors.Is(err, guard.ErrNotAcquired) {
			return errBusy
		}
		return err
	}
	fmt.Println(deduct(context.Background(), "4711"))
	// Output: <nil>
}

func Example_settings() {
	g, end := open()
	defer end()
	nightly := g.With(guard.WithMaxHold(2*time.Hour), guard.WithName("nightly"))
	fmt.Println(nightly.Name())
	// Output: nightly
}

func Example_aJob() {
	g, end := open()
	defer end()
	reports := 0
	report := func(context.Context) error { reports++; return nil }

	once := g.With(
		guard.WithMinHold(time.Minute),    // lockAtLeastFor
		guard.WithMaxHold(30*time.Minute), // lockAtMostFor
		guard.WithName("report"),
	)
	job := func(ctx context.Context) error {
		_, err := once.TryDo(ctx, guard.Key("job", "report"), report)
		return err
	}
	fmt.Println(job(context.Background()), reports)
	// Output: <nil> 1
}

func TestRedisfenceOfTheDocumentsRefusesALateWrite(t *testing.T) {
	_, rdb := redistest.Miniredis(t)
	for _, c := range []struct {
		token uint64
		err   error
	}{{9, nil}, {8, fence.ErrLateWrite}} {
		if err := pushFenced(t.Context(), rdb, c.token, "order"); !errors.Is(err, c.err) {
			t.Errorf("token %d: got %v, want %v", c.token, err, c.err)
		}
	}
}

func Example_atMostOnce() {
	g, end := open()
	defer end()
	ctx, orderID := context.Background(), "4711"
	charge := func(context.Context) (string, error) { return "", errors.New("no answer from the bank") }

	for range 2 {
		payments := g.With(guard.WithAtMostOnce())
		receipt, err := guard.Once(ctx, payments, guard.Key("pay", orderID), 24*time.Hour, charge)
		fmt.Println(receipt == "", errors.Is(err, guard.ErrInterrupted))
	}
	// Output:
	// true false
	// true true
}

func Example_theSameAnswerForAll() {
	g, end := open()
	defer end()
	ctx, orderID, charges := context.Background(), "4711", 0
	charge := func(context.Context) (string, error) {
		charges++
		return fmt.Sprint("receipt ", charges), nil
	}
	for range 2 {
		receipt, err := guard.Once(ctx, g, guard.Key("pay", orderID), 24*time.Hour, charge)
		fmt.Println(receipt, err)
	}
	// Output:
	// receipt 1 <nil>
	// receipt 1 <nil>
}

func batches(ctx context.Context) error {
	for range 3 {
		select {
		case <-guard.Wanted(ctx): // another call waits for the key, here or elsewhere
			return nil // between two batches: the next one goes on
		default:
		}
	}
	return ctx.Err()
}

func TestBatchesStopWhereNobodyWaitsOnlyAtTheirEnd(t *testing.T) {
	g, end := open()
	defer end()
	if err := g.Do(t.Context(), "export", batches); err != nil {
		t.Error(err)
	}
}
