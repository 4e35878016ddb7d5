package lockmw_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func cart(context.Context, *message) ([]string, error) {
	return []string{guard.Key("stock", 1), guard.Key("stock", 2)}, nil
}

func TestARuleOfSeveralKeys(t *testing.T) {
	rule := lockmw.KeysFunc(nil, watch, cart)
	testguard.Panics(t, "Stream with a rule of several keys", func() { lockmw.Stream(rule) })
	lock := lockmw.Unary(lockmw.KeysFunc(newGuard(t, memlocker.New()), buy, cart))
	_, err := lock(t.Context(), &message{}, &grpc.UnaryServerInfo{FullMethod: buy},
		func(ctx context.Context, _ any) (any, error) {
			for i := range 2 {
				if _, found := guard.LeaseOf(ctx, guard.Key("stock", i+1)); !found {
					return nil, fmt.Errorf("no lease of key %d", i+1)
				}
			}
			return nil, nil
		})
	if err != nil {
		t.Error(err)
	}
}
