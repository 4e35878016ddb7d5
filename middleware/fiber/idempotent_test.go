package lockmw_test

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/fiber"
	"github.com/go-lockguard/guard/outcome"
)

func TestAStreamIsNotKeptAndItsHandlerDoesNotRunAgain(t *testing.T) {
	runs := 0
	chain := []any{
		lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour),
		func(c fiber.Ctx) error {
			runs++
			return c.SendStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("part") })
		},
	}
	header := http.Header{"Idempotency-Key": {"k"}}
	if status, body := do(t, fiber.Config{}, "/stock/1", header, chain...); status != http.StatusOK || body != "part" {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := do(t, fiber.Config{}, "/stock/1", header, chain...); status != http.StatusConflict || runs != 1 {
		t.Errorf("then %d %s, %d runs", status, body, runs)
	}
}

func TestATakenConnectionIsNotTakenAgain(t *testing.T) {
	runs := 0
	chain := []any{
		lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour),
		func(c fiber.Ctx) error {
			runs++
			c.RequestCtx().Hijack(func(net.Conn) {})
			return c.SendStatus(http.StatusSwitchingProtocols)
		},
	}
	header := http.Header{"Idempotency-Key": {"k"}}
	for _, want := range []int{http.StatusSwitchingProtocols, http.StatusConflict} {
		if status, body := do(t, fiber.Config{}, "/stock/1", header, chain...); status != want || runs != 1 {
			t.Errorf("got %d %s, want %d; %d runs", status, body, want, runs)
		}
	}
}

// The client gets the refusal, and nobody takes over its connection after that.
func TestARefusedAnswerTakesNoConnection(t *testing.T) {
	var taken bool
	chain := []any{
		func(c fiber.Ctx) error {
			err := c.Next()
			taken = c.RequestCtx().Hijacked()
			return err
		},
		lockmw.Key(newGuard(t), "stock:{sku}"),
		func(c fiber.Ctx) error {
			c.RequestCtx().Hijack(func(net.Conn) {})
			return lockmw.Error(c, guard.ErrLeaseLost)
		},
	}
	if status, body := do(t, fiber.Config{}, "/stock/:sku", nil, chain...); status < http.StatusBadRequest || taken {
		t.Errorf("got %d %s; the connection is taken: %v", status, body, taken)
	}
}

// fiber sends the length that the body has, so no answer is cut.
func TestALengthThatTheBodyHasNotIsCorrected(t *testing.T) {
	chain := []any{
		lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour),
		func(c fiber.Ctx) error {
			c.Set(fiber.HeaderContentLength, "100")
			return c.SendString("done")
		},
	}
	for range 2 {
		status, body := do(t, fiber.Config{}, "/stock/1", http.Header{"Idempotency-Key": {"k"}}, chain...)
		if status != http.StatusOK || body != "done" {
			t.Errorf("got %d %s", status, body)
		}
	}
}

// Errors of the handler are answered by the application, and kept.
func TestAnErrorOfTheHandlerIsAnsweredInside(t *testing.T) {
	runs := 0
	chain := []any{
		lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour),
		func(fiber.Ctx) error {
			runs++
			return fiber.NewError(http.StatusUnprocessableEntity, "sold out")
		},
	}
	for range 2 {
		status, body := do(t, fiber.Config{}, "/stock/1", http.Header{"Idempotency-Key": {"k"}}, chain...)
		if status != http.StatusUnprocessableEntity || body != "sold out" || runs != 1 {
			t.Errorf("got %d %s, %d runs", status, body, runs)
		}
	}
}

// The context that a handler gives to outcome.Of may be fiber's own.
func TestARefusalThatIsWrittenByTheContextItselfIsNotKept(t *testing.T) {
	runs := 0
	chain := []any{
		lockmw.Idempotent(newGuard(t), keyfunc.Static("shop"), time.Hour),
		func(c fiber.Ctx) error {
			if runs++; runs > 1 {
				return ok(c)
			}
			o, _ := outcome.Of(c, &guard.HeldError{})
			return c.Status(o.Status).Send(o.Body())
		},
	}
	for _, want := range []int{http.StatusConflict, http.StatusOK} {
		status, body := do(t, fiber.Config{}, "/stock/1", http.Header{"Idempotency-Key": {"k"}}, chain...)
		if status != want {
			t.Errorf("got %d %s, want %d", status, body, want)
		}
	}
}

// The user of an authentication is in the Locals of fiber.
func TestTheScopeOfIdempotentFromIsInTheContext(t *testing.T) {
	runs := 0
	chain := []any{
		func(c fiber.Ctx) error {
			c.Locals("user", c.Get("X-User"))
			return c.Next()
		},
		lockmw.IdempotentFrom(newGuard(t), func(c fiber.Ctx) (string, error) {
			return fiber.Locals[string](c, "user"), nil
		}, time.Hour),
		func(c fiber.Ctx) error {
			runs++
			return c.SendString(c.Get("X-User"))
		},
	}
	for _, user := range []string{"ann", "bob", "ann"} {
		header := http.Header{"Idempotency-Key": {"k"}, "X-User": {user}}
		if status, body := do(t, fiber.Config{}, "/stock/1", header, chain...); body != user {
			t.Errorf("%s got %d %s", user, status, body)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func TestAHandlerSaysThatItHasDoneNothing(t *testing.T) {
	runs := 0
	chain := []any{
		lockmw.Idempotent(newGuard(t, guard.WithAtMostOnce()), keyfunc.Static("shop"), time.Hour),
		func(fiber.Ctx) error {
			runs++
			return guard.NothingDone(fiber.ErrBadGateway)
		},
	}
	for range 2 {
		status, body := do(t, fiber.Config{}, "/stock/1", http.Header{"Idempotency-Key": {"k"}}, chain...)
		if status != http.StatusBadGateway {
			t.Errorf("got %d %s", status, body)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}
