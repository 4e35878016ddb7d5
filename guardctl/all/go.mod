module github.com/go-lockguard/guard/guardctl/all

go 1.25.0

replace (
	github.com/go-lockguard/guard => ../../
	github.com/go-lockguard/guard/guardctl => ../
	github.com/go-lockguard/guard/locker/etcdlocker => ../../locker/etcdlocker
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest => ../../locker/etcdlocker/etcdtest
	github.com/go-lockguard/guard/locker/zookeeperlocker => ../../locker/zookeeperlocker
)

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/guardctl v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/zookeeperlocker v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require (
	github.com/bsm/redislock v0.10.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	github.com/redis/go-redis/v9 v9.19.0 // indirect
	github.com/urfave/cli/v3 v3.4.1 // indirect
	go.etcd.io/etcd/api/v3 v3.6.9 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.9 // indirect
	go.etcd.io/etcd/client/v3 v3.6.9 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/net v0.51.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
	golang.org/x/term v0.40.0 // indirect
	golang.org/x/text v0.34.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/grpc v1.79.3 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)
