package explore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// stock is what one process remembers.
type stock struct {
	mu   sync.Mutex // guards left
	left int
}

func (s *stock) isLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left > 0
}

func (s *stock) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left >= 0
}

// handling is a scenario: two goroutines of one process sell the last item.
func handling(sell func(s *stock, charge func() error) error) func(*explore.World) {
	return func(w *explore.World) {
		s, charges := &stock{left: 1}, 0
		w.Go("shop", func(ctx context.Context, g *guard.Guard) error {
			done := make(chan error)
			orders := []string{"A", "B"}
			for _, order := range orders {
				go func() {
					done <- g.Do(ctx, guard.Key("order", order), func(ctx context.Context) error {
						return sell(s, func() error {
							return w.Step(ctx, "charge "+order, func() error { charges++; return nil })
						})
					})
				}()
			}
			return errors.Join(<-done, <-done)
		})
		w.Check(func() error {
			if charges > 1 {
				return fmt.Errorf("%d orders were charged, and 1 item was left", charges)
			}
			return nil
		})
	}
}

func actAtOnce(s *stock, charge func() error) error {
	if !s.take() {
		return nil
	}
	return charge()
}

// Goroutines of one process are interleaved at their steps.
func TestGoroutinesOfAProcess(t *testing.T) {
	checksThenActs := handling(func(s *stock, charge func() error) error {
		if !s.isLeft() {
			return nil
		}
		if err := charge(); err != nil {
			return err
		}
		s.take()
		return nil
	})
	orderAlone := explore.Without("crash", "pause", "long-pause", "late", "lost-request", "lost-answer")
	t.Run("checks, then acts", func(t *testing.T) { judge(t, checksThenActs, true, orderAlone) })
	t.Run("nobody goes first", func(t *testing.T) {
		judge(t, checksThenActs, false, orderAlone, explore.Without("switch"))
	})
	t.Run("acts at once", func(t *testing.T) { judge(t, handling(actAtOnce), false) })
}
