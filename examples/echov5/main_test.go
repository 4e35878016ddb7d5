package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a real server adds to the table of the adapter.

var key = guard.Key("stock", "42")

// post sends a request for path to an app whose handler is h.
func post(t *testing.T, g *guardtest.Guard, h echo.HandlerFunc, path string) (status int, body string) {
	t.Helper()
	s := httptest.NewServer(app(g.Guard, h))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(req)
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

func TestTwoRoutesShareOneKey(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	for _, path := range []string{"/skus/42/deduct", "/skus/42/price"} {
		if status, body := post(t, g, deduct, path); status != http.StatusNoContent {
			t.Errorf("%s: got %d %s", path, status, body)
		}
		release := g.Hold(key)
		if status, body := post(t, g, deduct, path); status != http.StatusConflict {
			t.Errorf("%s, held: got %d %s", path, status, body)
		}
		release()
	}
}

func TestAStreamLearnsOfTheLoss(t *testing.T) {
	g := guardtest.New(t, guard.WithTTL(3*time.Second))
	status, body := post(t, g, func(c *echo.Context) error {
		_, _ = io.WriteString(c.Response(), "first ")
		if err := http.NewResponseController(c.Response()).Flush(); err != nil {
			return err
		}
		g.Lose(key)
		ctx := c.Request().Context()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), guard.ErrLeaseLost) {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
		_, err := io.WriteString(c.Response(), "last")
		return err
	}, "/skus/42/deduct")
	if status != http.StatusOK || body != "first last" {
		t.Errorf("got %d %s", status, body)
	}
}
