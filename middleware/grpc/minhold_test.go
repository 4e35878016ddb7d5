package lockmw_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestRetryInfoIsWhatIsLeftOfMinHold(t *testing.T) {
	g := newGuard(t, memlocker.New(), guard.WithMinHold(time.Hour), guard.WithMaxWait(0))
	c := dial(t, g, &shop{buy: func(context.Context) error { return nil }})
	begin := time.Now()
	if err := call(t.Context(), c, buy, "k"); err != nil {
		t.Fatal(err)
	}
	for range 20 { // to detect jitter
		var after time.Duration
		for _, d := range status.Convert(call(t.Context(), c, buy, "k")).Details() {
			if retry, is := d.(*errdetails.RetryInfo); is {
				after = retry.GetRetryDelay().AsDuration()
			}
		}
		if least := time.Hour - time.Since(begin); after < least || after > time.Hour {
			t.Fatalf("try again after %v with %v left", after, least)
		}
	}
}
