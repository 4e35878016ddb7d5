package rawkeys

import (
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestAHeldKeyIsRefused(t *testing.T) {
	g, sku := guardtest.New(t), "4711"
	g.Hold("stock:" + sku) // want `the key is made by concatenation`
	g.Hold(guard.Key("stock", sku))
	_ = g.Do(t.Context(), "stock:"+sku, nop)
	g.Do(t.Context(), "stock", nop) // want `Do returns an error, which is dropped`
	g.With(guard.WithMaxWait(0))
}
