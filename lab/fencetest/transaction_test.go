package fencetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// shop returns instances of a service whose guards exclude nobody of each
// other. A request to /STATUS charges key, and is answered by STATUS. A 202 has
// a long text, which the handler flushes.
func shop(c till, instances int, broken func() bool) (urls []string) {
	c.Helper()
	user := keyfunc.Header("X-User")
	for range instances {
		g, err := guard.New(memlocker.New(), guard.WithMaxWait(time.Minute),
			guard.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			c.Fatal(err)
		}
		mux := http.NewServeMux()
		pay := func(w http.ResponseWriter, r *http.Request) {
			tx, ok := sqlresult.TxFrom(r.Context())
			if !ok {
				c.Error("no transaction")
				return
			}
			if err := c.charge(r.Context(), tx, r.Header.Get("Idempotency-Key")); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if broken() {
				_ = tx.Rollback()
			}
			status := 0
			_, _ = fmt.Sscan(r.PathValue("status"), &status)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, rand.Text())
			if status == http.StatusAccepted {
				_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
				w.(http.Flusher).Flush()
			}
		}
		in := httpopt.InTransaction(c.db, c.results)
		mux.Handle("POST /{status}", lockmw.Idempotent(g, user, time.Hour, in)(http.HandlerFunc(pay)))
		s := httptest.NewServer(mux)
		c.Cleanup(func() {
			s.Close()
			_ = g.Close(context.WithoutCancel(c.Context()))
		})
		urls = append(urls, s.URL)
	}
	return urls
}

// post returns the status, and the body of an answer below 500.
func (c till) post(url, user, key string) (status int, body string) {
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, url, strings.NewReader("1"))
	if err != nil {
		c.Error(err)
		return 0, ""
	}
	r.Header.Set("X-User", user)
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Error(err)
		return 0, ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Error(err)
	}
	return answer.StatusCode, string(text)
}

func TestARequestIsCommittedWithItsAnswer(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	onTills(t, func(c till) {
		c.Helper()
		broken := false
		urls := shop(c, 2, func() bool { return broken })
		for status, charges := range map[string]int{"201": 1, "202": 1, "429": 0, "500": 0} {
			first, body := c.post(urls[0]+"/"+status, "ann", "k"+status)
			again, same := c.post(urls[1]+"/"+status, "ann", "k"+status)
			if strconv.Itoa(first) != status || again != first || (body == same) != (charges == 1) {
				c.Errorf("%s: %d %s and then %d %s", status, first, body, again, same)
			}
			if n := c.charges("k" + status); n != charges {
				c.Errorf("%s: %d charges, want %d", status, n, charges)
			}
		}
		if status, _ := c.post(urls[0]+"/200", "ann", "k201"); status != http.StatusUnprocessableEntity {
			c.Errorf("another request with the key: %d", status)
		}
		if status, _ := c.post(urls[0]+"/201", "bob", "k201"); status != http.StatusCreated || c.charges("k201") != 2 {
			c.Errorf("another user: %d, %d charges", status, c.charges("k201"))
		}
		long := strings.Repeat("k", 255)
		for range 2 {
			if status, body := c.post(urls[0]+"/201", "ann\xff", long); status != http.StatusCreated ||
				c.charges(long) != 1 {
				c.Errorf("a long key: %d %s, %d charges", status, body, c.charges(long))
			}
		}
		broken = true
		for _, path := range []string{"/201", "/202"} {
			if status, body := c.post(urls[0]+path, "ann", "b"); status != http.StatusServiceUnavailable {
				c.Errorf("what was not committed is answered: %d %.99s", status, body)
			}
		}
		broken = false
		if status, _ := c.post(urls[0]+"/201", "ann", "b"); status != http.StatusCreated || c.charges("b") != 1 {
			c.Errorf("after that: %d, %d charges", status, c.charges("b"))
		}
	})
}
