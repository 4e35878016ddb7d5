module github.com/go-lockguard/guard/guardctl/all

go 1.25.0

replace (
	github.com/go-lockguard/guard => ../../
	github.com/go-lockguard/guard/guardctl => ../
	github.com/go-lockguard/guard/locker/etcdlocker => ../../locker/etcdlocker
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest => ../../locker/etcdlocker/etcdtest
	github.com/go-lockguard/guard/locker/mysqllocker => ../../locker/mysqllocker
	github.com/go-lockguard/guard/locker/postgreslocker => ../../locker/postgreslocker
	github.com/go-lockguard/guard/locker/sqlitelocker => ../../locker/sqlitelocker
	github.com/go-lockguard/guard/locker/zookeeperlocker => ../../locker/zookeeperlocker
)

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/guardctl v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/mysqllocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/postgreslocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/sqlitelocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/zookeeperlocker v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require (
	github.com/klauspost/compress v1.19.0 // indirect
	github.com/nats-io/nats.go v1.52.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.55.0 // indirect
)

require (
	filippo.io/edwards25519 v1.1.1 // indirect
	github.com/bsm/redislock v0.10.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-lockguard/guard/locker/natslocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/natslocker/natstest v0.0.0-00010101000000-000000000000
	github.com/go-sql-driver/mysql v1.9.3 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.9.2 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/redis/go-redis/v9 v9.19.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/urfave/cli/v3 v3.6.2 // indirect
	go.etcd.io/etcd/api/v3 v3.6.14 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.14 // indirect
	go.etcd.io/etcd/client/v3 v3.6.14 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/term v0.45.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260414002931-afd174a4e478 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478 // indirect
	google.golang.org/grpc v1.82.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.72.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
	modernc.org/sqlite v1.50.0 // indirect
)

replace github.com/go-lockguard/guard/locker/natslocker => ../../locker/natslocker

replace github.com/go-lockguard/guard/locker/natslocker/natstest => ../../locker/natslocker/natstest
