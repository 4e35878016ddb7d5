package rawkeys

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockgin "github.com/go-lockguard/guard/middleware/gin"
	lockgrpc "github.com/go-lockguard/guard/middleware/grpc"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

const stock = "stock"

func nop(context.Context) error { return nil }

func reported(ctx context.Context, g *guard.Guard, sku string, id int) {
	_ = g.Do(ctx, "stock:"+sku, nop)                          // want `the key is made by concatenation: make it by guard.Key`
	_ = guard.Do(ctx, (stock + ":" + sku), nop)               // want `the key is made by concatenation`
	_ = g.Do(ctx, fmt.Sprintf("stock:%d", id), nop)           // want `the key is made by fmt.Sprintf`
	_ = g.Do(ctx, fmt.Sprint("stock:", id), nop)              // want `the key is made by fmt.Sprint`
	_ = g.Do(ctx, strings.Join([]string{"a", sku}, ":"), nop) // want `the key is made by strings.Join`

	key := "stock:" + sku
	_, _ = g.TryDo(ctx, key, nop) // want `the key is made by concatenation`

	keys := []string{guard.Key("a", sku), "b:" + sku} // want `the key is made by concatenation`
	_ = g.DoAll(ctx, keys, nop)

	_, _ = guard.Call(ctx, g, "stock:"+sku, func(context.Context) (int, error) { return 0, nil }) // want `the key is made by concatenation`
	_ = guard.Wrap(g,
		func(sku string) string { return "stock:" + sku }, // want `the key is made by concatenation`
		func(context.Context, string) (int, error) { return 0, nil })

	_ = g.Do(ctx, "stock:", nop)      // want `key "stock:" has an empty part: was a value to be added\? Write guard.Key\("stock", value\)`
	_ = g.Do(ctx, "stock:"+"", nop)   // want `key "stock:" has an empty part`
	_ = g.Do(ctx, ":4711", nop)       // want `key ":4711" has an empty part`
	_ = g.Do(ctx, "stock::4711", nop) // want `key "stock::4711" has an empty part`

	_ = guard.Key("stock:" + sku)                        // want `concatenation makes one part of the key, and its ':' is escaped`
	_ = guard.Key(fmt.Sprintf("stock:%d", id))           // want `fmt.Sprintf makes one part of the key, and its ':' is escaped`
	_ = guard.Key("stock:4711")                          // want `the ':' in "stock:4711" is escaped`
	_ = guard.Key("range", sku+"-"+sku)                  // want `concatenation joins several values`
	_ = guard.Key("range", fmt.Sprintf("%d-%d", id, id)) // want `fmt.Sprintf joins several values`
	_ = guard.Key(strings.Join([]string{"a", sku}, "-")) // want `strings.Join joins several values`
	_ = guard.Key("range", id*10+id)
	_ = guard.Key("range", fmt.Sprint(id+id))
}

func keyOf(c *gin.Context) (string, error) {
	if c.Param("sku") == "" {
		return "", nil
	}
	return "stock:" + c.Param("sku"), nil // want `the key is made by concatenation`
}

type message struct{ sku string }

func routes(g *guard.Guard) {
	_ = lockgin.KeyFrom(g, keyOf)
	_ = lockmw.KeyFunc(g, func(r *http.Request) (string, error) {
		return r.Method + r.URL.Path, nil // want `the key is made by concatenation`
	})
	byID := func(m *message) string { return "stock:" + m.sku } // want `the key is made by concatenation`
	_ = lockgrpc.Key(g, fmt.Sprint("any"), byID)
}

func stockKey(sku string) string { return fmt.Sprintf("stock:%s", sku) } // want `the key is made by fmt.Sprintf`

func cartKey(user string) string {
	key := "cart:" + user
	return key // want `the key is made by concatenation`
}

func (m *message) key() string { return "stock:" + m.sku } // want `the key is made by concatenation`

func skuKey(sku string) string { return guard.Key("stock", strings.ToUpper(sku)) }

func path(sku string) string { return "/stock/" + sku }

func nextKey(n int) string {
	if n == 0 {
		return ""
	}
	return nextKey(n - 1)
}

func helped(ctx context.Context, g *guard.Guard, sku string, m *message) {
	_ = g.Do(ctx, stockKey(sku), nop)
	_ = g.Do(ctx, stockKey("4711"), nop)
	key := cartKey(sku)
	_ = g.Do(ctx, key, nop)
	_ = g.DoAll(ctx, []string{stockKey(sku), m.key()}, nop)

	_ = g.Do(ctx, skuKey(sku), nop)
	_ = g.Do(ctx, nextKey(7), nop)
	_ = g.Do(ctx, guard.Key("page", path(sku)), nop)
	_ = g.Do(ctx, strings.ToUpper(sku), nop)
}

// What follows is right, or cannot be told.
func fine(ctx context.Context, g *guard.Guard, sku string, id int, given string) {
	_ = g.Do(ctx, guard.Key("stock", sku), nop)
	_ = g.Do(ctx, "nightly", nop)
	_ = g.Do(ctx, "nightly:report", nop)
	_ = g.Do(ctx, stock+":"+"all", nop)
	_ = g.Do(ctx, given, nop)
	_ = g.Do(ctx, "", nop) // which is refused at once
	_ = g.DoAll(ctx, []string{guard.Key("a", sku), "b"}, nop)

	_ = guard.Key("url", "https://example.com")
	_ = guard.Key("stock", "x-"+sku)
	_ = guard.Key("stock", fmt.Sprintf("%05d", id))
	_ = guard.Key("stock", strings.ToLower(sku))

	key := guard.Key("stock", sku)
	_ = g.Do(ctx, key, nop)
	other := given
	if id > 0 {
		other = "other:" + sku
	}
	_ = g.Do(ctx, other, nop)
	for _, k := range []string{given} {
		_ = g.Do(ctx, k, nop)
	}
	_ = fmt.Sprintf("stock:%s", "a"+sku)
	_ = guard.KeyHash(given)
}
