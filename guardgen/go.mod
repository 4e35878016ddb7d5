module github.com/go-lockguard/guard/guardgen

go 1.25.0

replace github.com/go-lockguard/guard => ../

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	golang.org/x/tools v0.38.0
)

require (
	golang.org/x/mod v0.29.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
)

tool github.com/go-lockguard/guard/guardgen
