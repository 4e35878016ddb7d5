package testguard

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// OutlivesForgottenConnections checks that a call with one attempt is not
// refused because its connections were forgotten. try is such a call on a key,
// and silence makes the network forget all connections.
//
// A busy machine may open the new connection too late, so four rounds of twenty
// are enough. If no call told the others of a dead connection, about two would
// do.
func OutlivesForgottenConnections(t *testing.T, silence func(), try func(key string) error) {
	t.Helper()
	const connections, enough, rounds = 8, 4, 20
	var refused []error
	for round := 0; round-len(refused) < enough; round++ {
		if round == rounds {
			t.Fatalf("calls were refused in %d of %d rounds: %v", len(refused), rounds, refused)
		}
		var wg sync.WaitGroup
		for i := range connections {
			wg.Go(func() { _ = try(strconv.Itoa(i)) })
		}
		wg.Wait()
		time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
		silence()
		if err := try(fmt.Sprint("k", round)); err != nil { // a key that no refused try has left
			refused = append(refused, err)
		}
	}
}
