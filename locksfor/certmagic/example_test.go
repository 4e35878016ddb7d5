package certmagiclock_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	certmagiclock "github.com/go-lockguard/guard/locksfor/certmagic"
)

func Example() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	storage := &certmagic.FileStorage{Path: os.TempDir()} // or one that all instances share
	config := certmagic.Config{Storage: certmagiclock.New(g, storage)}
	fmt.Println(config.Storage.Lock(context.Background(), "example.com"))
	fmt.Println(config.Storage.Unlock(context.Background(), "example.com"))
	// Output:
	// <nil>
	// <nil>
}
