package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	kerrors "github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/log"
	"go.uber.org/goleak"
	ggrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) {
	log.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// start starts a server and returns its address.
func start(t *testing.T, s interface {
	Endpoint() (*url.URL, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
},
) string {
	t.Helper()
	at, err := s.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Start(t.Context()) }() // ends with Stop
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return at.Host
}

func TestTwoOperationsShareOneKeyOverBothTransports(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
	var broken atomic.Bool
	hs, gs, err := servers(g.Guard, func(ctx context.Context, req *request) (*request, error) {
		if broken.Load() {
			panic("own")
		}
		return deduct(ctx, req)
	}, "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := start(t, hs)
	conn, err := ggrpc.NewClient(start(t, gs), ggrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, operation := range operations {
		path := "http://" + base + "/skus/42/" + strings.ToLower(short(operation))
		both := func(status int, reason string) {
			t.Helper()
			if got, body := post(t, path); got != status || !strings.Contains(body, reason) {
				t.Errorf("%s over HTTP: got %d %s, want %d %s", operation, got, body, status, reason)
			}
			err := kerrors.FromError(conn.Invoke(t.Context(), operation, wrapperspb.String("42"), new(request)))
			if err == nil && reason != "" || err != nil && err.Reason != reason {
				t.Errorf("%s over gRPC: got %v, want %q", operation, err, reason)
			}
		}
		both(http.StatusOK, "")
		release := g.Hold(guard.Key("stock", "42"))
		both(http.StatusConflict, "LOCK_HELD")
		release()
		mend := g.Break()
		both(http.StatusServiceUnavailable, "LOCK_UNAVAILABLE")
		mend()
		broken.Store(true)
		both(http.StatusInternalServerError, "UNKNOWN") // Kratos' own answer to a panic
		broken.Store(false)
		g.Hold(guard.Key("stock", "42"))() // fails if the key is still held
	}
}

func post(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
