package tusdlock_test

import (
	"context"
	"fmt"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	tusdlock "github.com/go-lockguard/guard/locksfor/tusd"
)

func Example() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	composer := handler.NewStoreComposer() // store.UseIn(composer) as well
	tusdlock.New(g).UseIn(composer)
	fmt.Println(composer.UsesLocker)
	// Output: true
}
