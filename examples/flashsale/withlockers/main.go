// Withlockers is the flash sale with the stores of leases of this project, for
// its flag -locker. It is a module of its own, because their clients take long
// to build.
//
//	go -C examples/flashsale/withlockers run . -locker etcd://localhost:2379
package main

import (
	"os"

	"github.com/go-lockguard/guard/examples/flashsale/show"
	_ "github.com/go-lockguard/guard/locker/etcdlocker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
	_ "github.com/go-lockguard/guard/locker/postgreslocker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
	_ "github.com/go-lockguard/guard/locker/zookeeperlocker"
)

func main() { os.Exit(show.Main(os.Args[1:], os.Stdout, os.Stderr)) }
