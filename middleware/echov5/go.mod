module github.com/go-lockguard/guard/middleware/echov5

go 1.25.0

replace github.com/go-lockguard/guard => ../../

require (
	github.com/go-lockguard/guard v0.0.0-00010101000000-000000000000
	github.com/labstack/echo/v5 v5.4.3
	go.uber.org/goleak v1.3.0
)

require golang.org/x/time v0.15.0 // indirect
