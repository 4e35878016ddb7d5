package lockmw_test

import (
	"bufio"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// fiber calls the function of a stream after the handlers, which is after
// COMMIT.
func TestAStreamIsSentIfTheWorkIsCommitted(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		refuse error
		want   []int // of each try
		sum    int
	}{
		"committed":     {200, nil, []int{200, 409}, 1},
		"declined":      {402, nil, []int{402, 402}, 0},
		"not committed": {200, errors.New("no COMMIT"), []int{503, 503}, 0},
	} {
		ledger := &lockmwtest.Ledger{Refuse: row.refuse}
		chain := []any{
			lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour, httpopt.InTransactionOf(ledger.Once)),
			func(c fiber.Ctx) error {
				lockmwtest.TxFrom(c.Context()).Add()
				return c.Status(row.status).SendStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("part") })
			},
		}
		for _, want := range row.want {
			status, body := do(t, fiber.Config{}, "/stock/1", http.Header{"Idempotency-Key": {"k"}}, chain...)
			if status != want || (body == "part") != (status == row.status) {
				t.Errorf("%s: got %d %s, want %d", name, status, body, want)
			}
		}
		if ledger.Sum() != row.sum {
			t.Errorf("%s: %d committed, want %d", name, ledger.Sum(), row.sum)
		}
	}
}

// The handler may be in the midst of its work when a timeout inside answers.
func TestHalfOfTheWorkIsNotCommitted(t *testing.T) {
	for name, refuse := range map[string]error{"COMMIT": nil, "no COMMIT": errors.New("no COMMIT")} {
		ledger := &lockmwtest.Ledger{Refuse: refuse}
		app, began, goOn, done := fiber.New(), make(chan struct{}), make(chan struct{}), make(chan struct{})
		once := lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour, httpopt.InTransactionOf(ledger.Once))
		app.Post("/", once, timeout.New(func(c fiber.Ctx) error {
			lockmwtest.TxFrom(c.Context()).Add()
			began <- struct{}{}
			<-goOn
			done <- struct{}{}
			return nil
		}, timeout.Config{Timeout: 100 * time.Millisecond}))
		url, runs := listen(t, app), 0
		for range 2 { // the next try runs the handler too
			status, body, _, err := pay(t, url)
			if status != http.StatusRequestTimeout || body != "Request Timeout" || err != nil {
				t.Errorf("%s: got %d %q, %v", name, status, body, err)
				break
			}
			<-began
			runs++
		}
		close(goOn)
		for range runs {
			<-done
		}
		if ledger.Sum() != 0 {
			t.Errorf("%s: %d committed", name, ledger.Sum())
		}
	}
}
