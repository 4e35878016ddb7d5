//go:build unix

package storm

import (
	"context"

	"github.com/go-lockguard/guard"
)

// Left returns the keys of g's store that are owned or waited for. It is
// [Place.Left] of a store that is a [locker.Inspector].
func Left(ctx context.Context, g *guard.Guard) (keys []string, err error) {
	for k, err := range g.List(ctx) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, k.Key)
	}
	return keys, nil
}
