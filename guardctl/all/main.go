// Command all is guardctl for every store of this project. It is a module of
// its own, because the clients of all stores take long to build.
//
//	go run github.com/go-lockguard/guard/guardctl/all@latest --url etcd://localhost:2379 ls
package main

import (
	"os"

	"github.com/go-lockguard/guard/guardctl/internal/ctl"
	_ "github.com/go-lockguard/guard/locker/etcdlocker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
	_ "github.com/go-lockguard/guard/locker/natslocker"
	_ "github.com/go-lockguard/guard/locker/postgreslocker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
	_ "github.com/go-lockguard/guard/locker/zookeeperlocker"
)

func main() { os.Exit(ctl.Main()) }
