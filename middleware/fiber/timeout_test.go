package lockmw_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
)

// listen serves app on the loopback and returns its URL. fiber's own Listener
// leaves a goroutine behind for 10 s.
func listen(t *testing.T, app *fiber.App) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = app.Handler() // makes the server ready
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			serving.Go(func() { _ = app.Server().ServeConn(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

// pay sends a payment with the key k.
func pay(t *testing.T, url string) (status int, body string, replayed bool, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", false, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Header.Get("Idempotency-Replayed") != "", nil
}

// Fiber's timeout answers while its handler runs on. What the handler writes is
// nobody's answer.
func TestAnAnswerAfterATimeoutInsideIsGone(t *testing.T) {
	for name, own := range map[string]timeout.Config{
		"fiber's answer": {},
		"an own answer": {OnTimeout: func(c fiber.Ctx) error {
			return c.Status(http.StatusRequestTimeout).SendString("Request Timeout")
		}},
	} {
		own.Timeout = 100 * time.Millisecond
		var runs atomic.Int32
		goOn, done := make(chan struct{}), make(chan struct{}) // closed by the test, and by the handler
		app := fiber.New()
		once := lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour)
		app.Post("/", once, timeout.New(func(c fiber.Ctx) error {
			runs.Add(1)
			defer close(done)
			<-goOn
			return c.Status(http.StatusPaymentRequired).SendString("card refused")
		}, own))
		url := listen(t, app)
		if status, body, again, err := pay(t, url); status != 408 || body != "Request Timeout" || again || err != nil {
			t.Errorf("%s: got %d %q, replay %v, %v", name, status, body, again, err)
		}
		for range 2 { // while the handler runs, and after it
			status, body, again, err := pay(t, url)
			if status != 409 || !strings.Contains(body, "idempotency_answer_gone") || again || err != nil {
				t.Errorf("%s: then %d %q, replay %v, %v", name, status, body, again, err)
			}
			if runs.Load() == 1 {
				select {
				case <-done:
				default:
					close(goOn)
					<-done
				}
			}
		}
		if runs.Load() != 1 {
			t.Errorf("%s: %d runs", name, runs.Load())
		}
	}
}

func TestATimeoutInsideALockIsLoggedOnce(t *testing.T) {
	var text lines
	logger := guard.WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
	app, goOn := fiber.New(), make(chan struct{})
	limit := timeout.Config{Timeout: 100 * time.Millisecond} // in which even a busy machine gives the key
	late := func(fiber.Ctx) error {
		<-goOn
		return errors.New("late")
	}
	app.Post("/inside", lockmw.Static(newGuard(t, logger), "a"), timeout.New(late, limit))
	app.Post("/outside", timeout.New(func(c fiber.Ctx) error { return c.Next() }, limit),
		lockmw.Static(newGuard(t, logger), "b"), late)
	url := listen(t, app)
	defer close(goOn)
	for _, path := range []string{"/inside", "/inside", "/outside"} {
		if status, body, _, err := pay(t, url+path); status != http.StatusRequestTimeout || err != nil {
			t.Errorf("%s: got %d %q, %v", path, status, body, err)
		}
	}
	const line = `level=ERROR msg="guard: a timeout inside the lock has answered while its handler may run on`
	if log := text.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, line) ||
		!strings.Contains(log, `route="POST /inside"`) {
		t.Errorf("want one line of /inside, got:\n%s", log)
	}
}

func TestADroppedAnswerIsGone(t *testing.T) {
	runs := 0
	app := fiber.New()
	app.Post("/", lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour), func(c fiber.Ctx) error {
		runs++
		return c.Drop()
	})
	url := listen(t, app)
	if status, body, _, err := pay(t, url); err == nil {
		t.Errorf("got %d %q, want a broken connection", status, body)
	}
	status, body, again, err := pay(t, url)
	if status != 409 || !strings.Contains(body, "idempotency_answer_gone") || again || err != nil || runs != 1 {
		t.Errorf("then %d %q, replay %v, %v, %d runs", status, body, again, err, runs)
	}
}

// lines is the output of a logger. lines is safe for concurrent use.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
