package httpguard_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
)

// A request without a key would run without the transaction that its handler
// needs.
func TestAnOptionalKeyDoesNotGoWithATransaction(t *testing.T) {
	once := func(context.Context, *guard.Guard, string, guard.OnceOptions, func(context.Context) ([]byte, error),
	) (guard.OnceResult, error) {
		return guard.OnceResult{}, nil
	}
	var with httpguard.Options[func(error), *http.Request]
	cfg := httpguard.NewConfig([]httpguard.Option[func(error), *http.Request]{
		with.InTransactionOf(once), with.OptionalKey(),
	})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	cfg.Idempotent(nil, time.Hour)
}
