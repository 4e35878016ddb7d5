// The metrics of a guard as Prometheus scrapes them. It needs a Redis on
// localhost:6379.
//
//	go run ./examples/metrics
//	curl -X POST localhost:8080/skus/42/deduct
//	curl localhost:8080/metrics
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
	"github.com/go-lockguard/guard/tracing"
)

func main() {
	obs, scraped, err := observe()
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"), guard.WithObserver(obs))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /skus/{sku}/deduct", lockmw.Key(g, "stock:{sku}")(http.HandlerFunc(deduct)))
	mux.Handle("GET /metrics", scraped)
	srv := &http.Server{Addr: ":8080", Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(srv.ListenAndServe())
}

// observe returns an observer, and the page that shows what it saw.
func observe() (*tracing.Observer, http.Handler, error) {
	registry := prometheus.NewRegistry() // one that other packages do not add to
	exp, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	obs, err := tracing.New(tracing.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exp))))
	return obs, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

func deduct(w http.ResponseWriter, _ *http.Request) {
	// Alone with this sku, until the request's context ends.
	w.WriteHeader(http.StatusNoContent)
}
