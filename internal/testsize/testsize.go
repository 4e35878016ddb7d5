// Package testsize gives long tests a short form, for go test -short. It is a
// package of its own because it imports nothing of this module, so the tests of
// every package can import it.
package testsize

import "testing"

// Pick returns long, or short under go test -short. A short form checks the
// same invariant with fewer rounds, seeds or rows. It must not be called before
// flags are parsed, so not in variables of a package.
func Pick[T any](long, short T) T {
	if testing.Short() {
		return short
	}
	return long
}
