//go:build unix

// Command storm runs processes that want the same keys of etcd, while it kills,
// stops and cuts off members and processes. It reports each section that ran
// beside another on its key, each fencing token that fell, keys that stay, and
// payments with two results.
//
//	go -C locker/etcdlocker/etcdtest run ./storm -for 60s
//	go -C locker/etcdlocker/etcdtest run ./storm -for 60s -modes
//	go -C locker/etcdlocker/etcdtest run ./storm -for 60s -once
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func main() {
	if process() {
		return
	}
	var s storm.Settings
	s.Flags()
	s.RoleFlags()
	flag.Parse()
	os.Exit(etcdtest.Main(func() int {
		r, err := run(context.Background(), s)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(r)
		if r.Failed() {
			return 1
		}
		return 0
	}))
}

// process is the work of a process of the storm, if this is one. Each prefers
// another member.
func process() bool {
	var clients []*clientv3.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	return storm.Process(func(members []string) (locker.Locker, error) {
		for _, addr := range members {
			c, err := clientv3.New(etcdtest.Config(addr))
			if err != nil {
				return nil, err
			}
			clients = append(clients, c)
		}
		first := os.Getpid() % len(clients)
		others := append(clients[:first:first], clients[first+1:]...)
		return etcdlocker.New(clients[first], etcdlocker.WithMembers(others...)), nil
	})
}
