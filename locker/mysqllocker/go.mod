module github.com/go-lockguard/guard/locker/mysqllocker

go 1.25.0

replace github.com/go-lockguard/guard => ../../

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/go-sql-driver/mysql v1.9.3
	go.uber.org/goleak v1.3.0
)

require filippo.io/edwards25519 v1.1.1 // indirect
