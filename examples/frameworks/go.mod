module github.com/go-lockguard/guard/examples/frameworks

go 1.25.0

replace (
	github.com/go-lockguard/guard => ../../
	github.com/go-lockguard/guard/middleware/fiber => ../../middleware/fiber
	github.com/go-lockguard/guard/middleware/grpc => ../../middleware/grpc
)

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/middleware/fiber v0.0.0-00010101000000-000000000000
	github.com/go-lockguard/guard/middleware/grpc v0.0.0-00010101000000-000000000000
	github.com/gofiber/fiber/v3 v3.1.0
	github.com/redis/go-redis/v9 v9.22.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/andybalholm/brotli v1.2.0 // indirect
	github.com/bsm/redislock v0.10.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gofiber/schema v1.7.0 // indirect
	github.com/gofiber/utils/v2 v2.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.18.4 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.3 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasthttp v1.69.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/net v0.50.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
	golang.org/x/text v0.34.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260401024825-9d38bb4040a9 // indirect
)
