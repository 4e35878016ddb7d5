module github.com/go-lockguard/guard/guardctl

go 1.25.0

replace github.com/go-lockguard/guard => ../

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/redis/go-redis/v9 v9.19.0
	github.com/urfave/cli/v3 v3.6.2
	go.uber.org/goleak v1.3.0
	golang.org/x/term v0.33.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/bsm/redislock v0.10.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
