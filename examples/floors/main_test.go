package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two instances take forty comments on one post, all at once.
func Example() {
	store, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer store.Close()

	var instances []*echo.Echo
	for range 2 {
		rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
		defer rdb.Close()
		g, err := guard.New(redislocker.New(rdb), guard.WithMaxWait(time.Minute))
		if err != nil {
			panic(err)
		}
		defer g.Close(context.Background())
		instances = append(instances, app(comments{rdb}, lockmw.Key(g, "comments:{post|int}")))
	}

	floors := crowd(40, instances)
	fmt.Println(floors)
	// Output: [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40]
}

// crowd sends n comments at the same moment, and returns the floors that they got, sorted.
func crowd(n int, instances []*echo.Echo) []int {
	floors := make([]int, n)
	start := make(chan struct{}) // closed when all are ready
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			target := []string{"/posts/7/comments", "/posts/007/comments"}[i%2] // the same post
			body := strings.NewReader(url.Values{"text": {"hello"}}.Encode())
			r := httptest.NewRequest(http.MethodPost, target, body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			instances[i%len(instances)].ServeHTTP(w, r)
			var answer struct{ Floor int }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusCreated {
				panic(fmt.Sprint(w.Code, w.Body))
			}
			floors[i] = answer.Floor
		})
	}
	close(start)
	wg.Wait()
	slices.Sort(floors)
	return floors
}

// The same crowd without the lock, so that the Example says something.
func TestWithoutTheLockFloorsAreBuiltTwice(t *testing.T) {
	store := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close()
	one := app(comments{rdb})
	for range 50 { // more than one crowd is hardly ever needed
		store.FlushAll()
		floors := crowd(40, []*echo.Echo{one, one})
		if len(slices.Compact(floors)) < 40 {
			return
		}
	}
	t.Error("every crowd came through one by one")
}
