package guard_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard"
)

func TestLeaseFrom_OfANilContextIsNone(t *testing.T) {
	var none context.Context
	if l, ok := guard.LeaseFrom(none); ok {
		t.Errorf("LeaseFrom: %v", l)
	}
	if l, ok := guard.LeaseOf(none, key); ok {
		t.Errorf("LeaseOf: %v", l)
	}
}

// The token of one key would be passed to the resource of another.
func TestFencingToken_OfSeveralKeysIsAskedByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithFencing())
		wantErr(t, b.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context) error {
			_, err := guard.FencingToken(ctx)
			wantErr(t, err, guard.ErrInvalidOption)
			if !strings.Contains(err.Error(), "guard.LeaseOf(ctx, key)") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			l, _ := guard.LeaseOf(ctx, "a")
			if token, err := l.FencingToken(ctx); token == 0 || err != nil {
				t.Errorf("of one key: %d, %v", token, err)
			}
			for _, inner := range []string{"a", "c"} { // again, and another key
				wantErr(t, b.Do(ctx, inner, func(ctx context.Context) error {
					_, err := guard.FencingToken(ctx)
					return err
				}), nil)
			}
			return nil
		}), nil)
		wantErr(t, b.DoAll(t.Context(), []string{"a", "a"}, func(ctx context.Context) error {
			_, err := guard.FencingToken(ctx)
			return err
		}), nil)
	})
}
