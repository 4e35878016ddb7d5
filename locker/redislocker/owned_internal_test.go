package redislocker

import (
	"errors"
	"testing"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// Law 8. A second request fetches the token, if the server did not know the
// script. That one may wait for too long in the queue of this process.
func TestAKeyWhoseTokenWasNotAskedForMayBeOwned(t *testing.T) {
	answer := redisconn.NewCommand(t.Context())
	answer.SetErr(redisconn.ErrUnsent)
	a := &attempt{Locker: &Locker{server: &server{}}, claim: &locker.Claim{Fencing: true}}
	_, err := a.owned([]command{answer})
	if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrUnsent) {
		t.Errorf("%v, want ErrUnavailable without ErrUnsent", err)
	}
}
