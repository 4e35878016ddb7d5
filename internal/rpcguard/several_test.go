package rpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/keyfunc"
)

func TestACallRunsUnderAllItsKeys(t *testing.T) {
	g := guardtest.New(t)
	r := rpcguard.NewSeveral(g.Guard, "/shop.Stock/Order",
		func(_ context.Context, keys []string) ([]string, error) { return keys, nil })
	order := func(keys any) (string, error) {
		return rpcguard.Run(t.Context(), g.Guard, r, keys, func(ctx context.Context) (string, error) {
			for _, key := range keys.([]string) {
				if l, found := guard.LeaseOf(ctx, key); !found || l.Err() != nil {
					t.Errorf("no lease on %s", key)
				}
			}
			return "done", nil
		})
	}
	if got, err := order([]string{"b", "a", "b"}); got != "done" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprint("k", i))
	}
	for _, c := range []struct {
		message any
		err     error
	}{
		{[]string{}, keyfunc.ErrMissing},
		{[]string{"a", ""}, keyfunc.ErrMissing},
		{[]string{"a", strings.Repeat("x", 120_000)}, keyfunc.ErrInvalid},
		{many, keyfunc.ErrTooManyKeys},
		{42, keyfunc.ErrNoSource},
	} {
		if got, err := order(c.message); got != "" || !errors.Is(err, c.err) {
			t.Errorf("got %q, %v; want %v", got, err, c.err)
		}
	}
	if _, err := order(slices.Concat(many[1:], many[1:])); err != nil {
		t.Error(err)
	}
}
