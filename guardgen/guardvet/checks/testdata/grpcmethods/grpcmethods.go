package grpcmethods

import (
	"context"

	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

type request = health.HealthCheckRequest

func key(r *request) string { return guard.Key("health", r.GetService()) }

func rules(g *guard.Guard, method string) {
	_ = lockmw.Key(g, "/grpc.health.v1.Health/Check", key)                                                     // want `a misspelled method is never locked: use the generated constant`
	_ = lockmw.KeyFunc(g, "Check", func(_ context.Context, r *request) (string, error) { return key(r), nil }) // want `a misspelled method is never locked`

	_ = lockmw.Key(g, health.Health_Check_FullMethodName, key)
	_ = lockmw.Key(g, method, key)
}
