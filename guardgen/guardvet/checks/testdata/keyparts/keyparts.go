package keyparts

import (
	"context"
	"errors"
	"math/big"
	"net/netip"
	"time"

	"github.com/go-lockguard/guard"
)

type sku string

type id struct{ n int }

func (id) String() string { return "id" }

type order struct{ ID string }

type number float64

func reported(o *order, price float64, ids []string, err error, ctx context.Context, fn func() string) {
	_ = guard.Key("order", o)                // want `a pointer without String or MarshalText cannot be part of a key: guard.Key is "" here`
	_ = guard.Key("order", *o)               // want `a struct without String or MarshalText cannot be part of a key`
	_ = guard.Key("price", price)            // want `a float cannot be part of a key`
	_ = guard.Key("price", 1.5)              // want `a float cannot be part of a key`
	_ = guard.Key("price", number(1))        // want `a float cannot be part of a key`
	_ = guard.Key("price", big.NewFloat(1))  // want `a float cannot be part of a key`
	_ = guard.Key("ids", ids)                // want `a slice cannot be part of a key`
	_ = guard.Key("sum", [2]int{1, 2})       // want `an array cannot be part of a key`
	_ = guard.Key("by", map[string]int{})    // want `a map cannot be part of a key`
	_ = guard.Key("fn", fn)                  // want `a func cannot be part of a key`
	_ = guard.Key("err", err)                // want `an error cannot be part of a key`
	_ = guard.Key("err", errors.New("text")) // want `an error cannot be part of a key`
	_ = guard.Key("ctx", ctx)                // want `a context cannot be part of a key`
	_ = guard.Key("nil", nil)                // want `nil cannot be part of a key`
	_ = guard.Key("stock", "")               // want `guard.Key is "" with an empty part`
	_ = guard.Key()                          // want `guard.Key without parts is ""`
}

func fine[K comparable](o *order, s sku, a any, k K, at *time.Time, parts ...any) {
	_ = guard.Key("order", o.ID, s, id{1}, &id{2}, 7, uint8(7), true, 'a')
	_ = guard.Key("day", time.Now(), at, time.Friday, time.Second)
	_ = guard.Key("addr", netip.IPv6Unspecified(), big.NewInt(7))
	_ = guard.Key("any", a, k)
	_ = guard.Key(parts...)
}
