package asynqlock_test

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/go-lockguard/guard"
	asynqlock "github.com/go-lockguard/guard/jobs/asynq"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func Example() {
	g, err := guard.New(memlocker.New(), guard.WithName("orders")) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	config := asynq.Config{IsFailure: asynqlock.IsFailure, RetryDelayFunc: asynqlock.RetryDelay}
	_ = config // for asynq.NewServer

	mux := asynq.NewServeMux()
	mux.Use(asynqlock.Key(g, func(t *asynq.Task) string { return guard.Key("order", string(t.Payload())) }))
	mux.HandleFunc("order:pay", func(context.Context, *asynq.Task) error {
		fmt.Println("paid")
		return nil
	})

	task := asynq.NewTask("order:pay", []byte("7"))
	_ = g.Do(context.Background(), "order:7", func(context.Context) error { // another holder
		err := mux.ProcessTask(context.Background(), task)
		fmt.Println("counts as a failure:", asynqlock.IsFailure(err))
		return nil
	})
	fmt.Println(mux.ProcessTask(context.Background(), task))
	// Output:
	// counts as a failure: false
	// paid
	// <nil>
}
