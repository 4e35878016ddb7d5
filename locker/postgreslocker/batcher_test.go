package postgreslocker_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// The guard goes on with a claim whose request was not sent, and gives up one
// whose request may still be carried out (law 12).
func TestOnlyACallThatNoWorkerHasIsUnsent(t *testing.T) {
	for _, unsent := range []bool{false, true} {
		err := postgreslocker.InTime(unsent, context.DeadlineExceeded, nil)
		if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrUnsent) != unsent {
			t.Errorf("no worker has the call: %v; %v", unsent, err)
		}
	}
	if err := postgreslocker.InTime(false, nil, io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("an answer: %v, want its error", err)
	}
}
