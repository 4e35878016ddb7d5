package lockmw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	app := fiber.New()
	app.Post("/stock/:sku/buy", lockmw.Key(g, "stock:{sku}"), func(c fiber.Ctx) error {
		return c.SendString("bought " + c.Params("sku"))
	})

	buy := func(sku string) {
		res, err := app.Test(httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil))
		if err != nil {
			panic(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		fmt.Println(res.StatusCode, string(body))
	}
	buy("42")
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		buy("42")
		return nil
	})
	// Output:
	// 200 bought 42
	// 409 {"type":"about:blank","title":"Conflict","status":409,"detail":"Another request is working on the same resource. Try again later.","code":"lock_held"}
}
