// Comments get floor numbers: 1, 2, 3 and so on below each post. The number of the next one is read, and the comment
// stored with it; two requests that do so at the same time would build the same floor twice. The lock in front of the
// route has one request at a time do it, per post, across all instances.
//
//	REDIS=localhost:6379 go run ./examples/floors
//	curl -d 'text=first' localhost:8080/posts/7/comments
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

func main() {
	addr := os.Getenv("REDIS")
	if addr == "" {
		addr = "localhost:6379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("comments"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(app(comments{rdb}, lockmw.Key(g, "comments:{post|int}")).Start("localhost:8080"))
}

// app is one instance of the service.
func app(c comments, lock ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.HideBanner = true
	e.POST("/posts/:post/comments", func(ctx echo.Context) error {
		post, err := strconv.Atoi(ctx.Param("post"))
		if err != nil {
			return echo.ErrBadRequest
		}
		floor, err := c.add(ctx.Request().Context(), post, ctx.FormValue("text"))
		if err != nil {
			return err
		}
		return ctx.JSON(http.StatusCreated, map[string]int{"floor": floor})
	}, lock...)
	return e
}

// comments keeps what was said in Redis, as a list for each post. It stands for any store in which the number of the next
// floor takes a read and a write.
type comments struct{ rdb *redis.Client }

func (c comments) add(ctx context.Context, post int, text string) (floor int, err error) {
	key := "post:" + strconv.Itoa(post)
	n, err := c.rdb.LLen(ctx, key).Result()
	if err != nil {
		return 0, err
	}
	floor = int(n) + 1
	return floor, c.rdb.RPush(ctx, key, strconv.Itoa(floor)+" "+text).Err()
}
