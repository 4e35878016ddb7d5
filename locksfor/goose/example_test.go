package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	gooselock "github.com/go-lockguard/guard/locksfor/goose"
)

func Example() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)
	db, err := sql.Open("sqlite", "file:shop?mode=memory&cache=shared")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	files := fstest.MapFS{"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);")}}

	once := g.With(guard.WithMaxWait(10 * time.Minute))
	lock := goose.WithLocker(gooselock.New(once, guard.Key("migrations", "shop")))
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, lock)
	if err != nil {
		panic(err)
	}
	results, err := p.Up(ctx)
	fmt.Println(len(results), err)
	// Output: 1 <nil>
}

func Example_withoutALocker() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)
	db, err := sql.Open("sqlite", "file:books?mode=memory&cache=shared")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	files := fstest.MapFS{"1_books.sql": {Data: []byte("-- +goose Up\nCREATE TABLE books (id INTEGER);")}}

	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		panic(err)
	}
	once := g.With(guard.WithMaxWait(10*time.Minute), guard.WithMaxHold(time.Hour))
	err = once.Do(ctx, guard.Key("migrations", "shop"), func(ctx context.Context) error {
		_, err := p.Up(ctx) // ends with the lease
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}
