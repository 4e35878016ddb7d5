package httpguard_test

import (
	"errors"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
)

func TestEachRouteOfAMiddlewareHasAPlaceOfItsOwn(t *testing.T) {
	looks, moved := 0, false
	check := httpguard.Place(func([]string) bool { looks++; return moved })
	for range 2 {
		if err := check("/a"); err != nil {
			t.Errorf("a route without a timeout: %v", err)
		}
	}
	moved = true
	for range 2 {
		if err := check("/b"); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("a route inside a timeout: %v, want ErrInvalidOption", err)
		}
	}
	if looks != 2 {
		t.Errorf("%d looks at the stack of two routes, want one of each", looks)
	}
}
