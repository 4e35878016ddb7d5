module github.com/go-lockguard/guard/lab

go 1.26.0

replace (
	github.com/go-lockguard/guard => ../
	github.com/go-lockguard/guard/locker/etcdlocker => ../locker/etcdlocker
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest => ../locker/etcdlocker/etcdtest
	github.com/go-lockguard/guard/locker/mysqllocker => ../locker/mysqllocker
	github.com/go-lockguard/guard/locker/postgreslocker => ../locker/postgreslocker
	github.com/go-lockguard/guard/locker/sqlitelocker => ../locker/sqlitelocker
	github.com/go-lockguard/guard/locker/zookeeperlocker => ../locker/zookeeperlocker
)

// Only redsync's own tests import it, so it is never built here: but go mod tidy wants it, and not every proxy has 1.0.79.
replace github.com/redis/rueidis/rueidiscompat => github.com/redis/rueidis/rueidiscompat v1.0.69

require (
	github.com/bsm/redislock v0.10.0
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/etcdlocker/etcdtest v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/mysqllocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/postgreslocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/sqlitelocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/zookeeperlocker v0.0.0-00010101000000-000000000000
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.9.3
	github.com/go-zookeeper/zk v1.0.4
	github.com/jackc/pgx/v5 v5.9.2
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	go.etcd.io/etcd/client/v3 v3.6.14
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	gonum.org/v1/plot v0.17.0
	google.golang.org/grpc v1.83.2
	modernc.org/sqlite v1.50.0
)

require (
	github.com/klauspost/compress v1.19.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	filippo.io/edwards25519 v1.1.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-lockguard/guard/locker/natslocker v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/locker/natslocker/natstest v0.0.0-00010101000000-000000000000
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/nats-io/nats.go v1.52.0
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.etcd.io/etcd/api/v3 v3.6.14 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.14 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.1 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.72.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

replace github.com/go-lockguard/guard/locker/natslocker => ../locker/natslocker

replace github.com/go-lockguard/guard/locker/natslocker/natstest => ../locker/natslocker/natstest
