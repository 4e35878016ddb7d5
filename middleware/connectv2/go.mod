module github.com/go-lockguard/guard/middleware/connectv2

go 1.26.0

replace github.com/go-lockguard/guard => ../../

require (
	connectrpc.com/connect/v2 v2.0.0
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260401024825-9d38bb4040a9
	google.golang.org/protobuf v1.36.12
)
