//go:build unix

// Command storm runs processes that want the same keys of ZooKeeper, while it
// kills, stops and cuts off servers and processes, and lets sessions expire. It
// reports each section that ran beside another on its key, each fencing token
// that fell, and keys that stay.
//
//	go -C locker/zookeeperlocker run ./zktest/storm -for 60s
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/storm"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// session is the timeout of sessions. Some cuts are longer.
const session = 3 * time.Second

func main() {
	if process() {
		return
	}
	var s storm.Settings
	s.Flags()
	flag.Parse()
	r, err := run(context.Background(), s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(r)
	if r.Failed() {
		os.Exit(1)
	}
}

// process is the work of a process of the storm, if this is one.
func process() bool {
	var conn *zk.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	return storm.Process(func(servers []string) (_ locker.Locker, err error) {
		conn, err = zktest.Dial(session, servers...)
		if err != nil {
			return nil, err
		}
		return zookeeperlocker.New(conn), nil
	})
}
