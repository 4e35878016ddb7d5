//go:build lockorder

package lockorder_test

import (
	"sync"
	"testing"

	"github.com/go-lockguard/guard/internal/lockorder"
)

func TestAnInversionIsSeen(t *testing.T) {
	var gate lockorder.Gate
	var grant lockorder.Grant
	var renewer lockorder.Renewer
	for name, c := range map[string]struct {
		outer, inner sync.Locker
		right        bool
	}{
		"gate, grant":    {&gate, &grant, true},
		"grant, renewer": {&grant, &renewer, true},
		"grant, gate":    {&grant, &gate, false},
		"renewer, gate":  {&renewer, &gate, false},
		"gate, gate":     {&gate, new(lockorder.Gate), false},
	} {
		func() {
			defer func() {
				if seen := recover() != nil; seen == c.right {
					t.Errorf("%s: seen as wrong: %t", name, seen)
				}
			}()
			c.outer.Lock()
			defer c.outer.Unlock()
			c.inner.Lock()
			c.inner.Unlock() //nolint:staticcheck // the order is all that matters
		}()
	}
}
