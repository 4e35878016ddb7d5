package lockmw_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func TestRetryInfoIsAtLeastWhatIsLeftOfMinHold(t *testing.T) {
	g := newGuard(t, memlocker.New(), guard.WithMinHold(time.Hour), guard.WithMaxWait(0))
	nothing := func(context.Context) error { return nil }
	if err := g.Do(t.Context(), "k", nothing); err != nil {
		t.Fatal(err)
	}
	for _, d := range status.Convert(lockmw.Error(t.Context(), g.Do(t.Context(), "k", nothing))).Details() {
		if retry, is := d.(*errdetails.RetryInfo); is && retry.GetRetryDelay().AsDuration() > 59*time.Minute {
			return
		}
	}
	t.Error("no RetryInfo, or one before MinHold is over")
}
