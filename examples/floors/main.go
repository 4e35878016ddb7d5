// Floors numbers the comments below a post: 1, 2, 3 and so on. It reads the
// last number and stores the comment with the next one. Two requests that do so
// at the same time build the same floor twice. The lock in front of the route
// admits one request at a time per post, across all instances.
//
//	go run ./examples/floors -contrast    # needs no Redis
//	REDIS=localhost:6379 go run ./examples/floors
//	curl -d 'text=first' localhost:8080/posts/7/comments
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

// postKey is the key of a post. The normalizer makes 7 and 007 the same one.
const postKey = "comments:{post|int}"

func main() {
	contrast := flag.Bool("contrast", false, "send 40 comments at once, without the lock and with it, and exit")
	flag.Parse()
	if *contrast {
		if err := showContrast(os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	addr := os.Getenv("REDIS")
	if addr == "" {
		addr = "localhost:6379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("comments"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(app(comments{rdb}, lockmw.Key(g, postKey)).Start("localhost:8080"))
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
		text := strings.TrimSpace(ctx.FormValue("text"))
		if text == "" {
			return echo.NewHTTPError(http.StatusBadRequest, "text is empty")
		}
		floor, err := c.add(ctx.Request().Context(), post, text)
		if err != nil {
			return err
		}
		return ctx.JSON(http.StatusCreated, map[string]int{"floor": floor})
	}, lock...)
	return e
}

// comments keeps the comments of each post as a list in Redis. It stands for
// any store in which the next number takes a read and a write.
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
