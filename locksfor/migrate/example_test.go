package migratelock_test

import (
	"context"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	migratelock "github.com/go-lockguard/guard/locksfor/migrate"
)

func Example() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	driver, _ := stub.WithInstance(nil, &stub.Config{}) // that of your database
	files, err := iofs.New(fstest.MapFS{"1_orders.up.sql": {}}, ".")
	if err != nil {
		panic(err)
	}

	once := g.With(guard.WithMaxWait(10 * time.Minute))
	locked := migratelock.New(once, guard.Key("migrations", "shop"), driver)
	m, err := migrate.NewWithInstance("files", files, "shop", locked)
	if err != nil {
		panic(err)
	}
	m.LockTimeout = 11 * time.Minute // longer than MaxWait
	fmt.Println(m.Up())
	// Output: <nil>
}
