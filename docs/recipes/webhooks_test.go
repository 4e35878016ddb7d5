package recipes_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// The code of webhooks.md.

type accountKey struct{}

func accountOf(ctx context.Context) (string, bool) {
	account, found := ctx.Value(accountKey{}).(string)
	return account, found
}

// signed refuses what account has not signed.
func signed(account string, valid func(h http.Header, body []byte) bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, 25<<20))
		if err != nil || !valid(c.Request.Header, body) {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(c.Request.Context(), accountKey{}, account)
		c.Request = c.Request.WithContext(ctx)
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
	}
}

func byGitHub(secret string) func(h http.Header, body []byte) bool {
	return func(h http.Header, body []byte) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		sum, err := hex.DecodeString(strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="))
		return err == nil && hmac.Equal(sum, mac.Sum(nil))
	}
}

func byStripe(secret string) func(h http.Header, body []byte) bool {
	return func(h http.Header, body []byte) bool {
		return webhook.ValidatePayload(body, h.Get("Stripe-Signature"), secret) == nil
	}
}

func hooks(g *guard.Guard, githubSecret, stripeSecret string, push, paid gin.HandlerFunc) http.Handler {
	r := gin.New()

	once := func(id keyfunc.Func) gin.HandlerFunc {
		return lockmw.Idempotent(g, keyfunc.FromContext(accountOf), 4*24*time.Hour,
			httpopt.WithIdempotencyKey(id), httpopt.WithoutFingerprint(), httpopt.WithBodyLimit(1<<20))
	}
	r.POST("/hooks/github", signed("github:acme", byGitHub(githubSecret)), once(keyfunc.Header("X-GitHub-Delivery")), push)
	r.POST("/hooks/stripe", signed("stripe:acct_1", byStripe(stripeSecret)), once(keyfunc.JSON("id")), paid)
	return r
}

// webhook has the function of package webhook of stripe-go, as Stripe describes
// it, with a time that is always right.
var webhook stripeWebhook

type stripeWebhook struct{}

func (stripeWebhook) ValidatePayload(body []byte, header, secret string) error {
	if at, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ","); header == stripeSignature(at, secret, body) {
		return nil
	}
	return errors.New("the signature is wrong")
}

func stripeSignature(at, secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + string(body)))
	return fmt.Sprintf("t=%s,v1=%x", at, mac.Sum(nil))
}

// provider sends deliveries.
type provider struct {
	*testing.T

	runs    int // of the handlers
	status  int // of their answers
	problem []string
}

func (p *provider) handle(c *gin.Context) {
	p.runs++
	time.Sleep(100 * time.Millisecond)
	c.String(p.status, "run %d", p.runs)
}

func (p *provider) github(h http.Handler, secret, id, body string) *httptest.ResponseRecorder {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return send(h, http.MethodPost, "/hooks/github", "", body,
		"X-GitHub-Delivery", id, "X-Hub-Signature-256", fmt.Sprintf("sha256=%x", mac.Sum(nil)))
}

func (p *provider) stripe(h http.Handler, secret, id, at string) *httptest.ResponseRecorder {
	body := `{"id": "` + id + `", "type": "invoice.paid", "pending_webhooks": ` + at + `}`
	return send(h, http.MethodPost, "/hooks/stripe", "", body, "Content-Type", "application/json",
		"Stripe-Signature", stripeSignature(at, secret, []byte(body)))
}

// expect notes a problem unless w has that status, is a replay or not, and the
// handlers ran that often.
func (p *provider) expect(what string, w *httptest.ResponseRecorder, status int, replay bool, runs int) {
	again := w.Header().Get("Idempotency-Replayed") == "true"
	if w.Code != status || again != replay || p.runs != runs {
		p.problem = append(p.problem, fmt.Sprintf("%s: got %d %s, replay %v, %d runs; want %d, replay %v, %d runs",
			what, w.Code, w.Body, again, p.runs, status, replay, runs))
	}
}

// deliver tries the rows of the page.
func (p *provider) deliver(g *guard.Guard, h http.Handler) {
	p.status = http.StatusAccepted
	p.expect("unsigned", p.github(h, "", "d1", "{}"), 401, false, 0)
	p.expect("unsigned", p.stripe(h, "", "evt_1", "1"), 401, false, 0)
	for _, key := range []string{
		guard.Key("idempotent", "github:acme", "d1"), guard.Key("idempotent", "stripe:acct_1", "evt_1"),
	} {
		if found, err := g.Forget(p.Context(), key); found || err != nil {
			p.problem = append(p.problem, fmt.Sprintf("an unsigned request left a record at %s, %v", key, err))
		}
	}
	p.expect("the first", p.github(h, "s", "d1", "{}"), 202, false, 1)
	p.expect("again", p.github(h, "s", "d1", "{}"), 202, true, 1)
	p.expect("unsigned, of an event that was there", p.github(h, "", "d1", "{}"), 401, false, 1)
	p.expect("another", p.github(h, "s", "d2", strings.Repeat(" ", 2<<20)), 202, false, 2)
	p.expect("no id", p.github(h, "s", "", "{}"), 400, false, 2)
	p.expect("the first", p.stripe(h, "s", "evt_1", "1"), 202, false, 3)
	p.expect("again, signed and written anew", p.stripe(h, "s", "evt_1", "2"), 202, true, 3)
	p.expect("the id of the other provider", p.stripe(h, "s", "d1", "1"), 202, false, 4)
	p.status = http.StatusInternalServerError
	p.expect("a failure", p.github(h, "s", "d3", "{}"), 500, false, 5)
	p.expect("and again", p.github(h, "s", "d3", "{}"), 500, false, 6)
	p.status = http.StatusUnprocessableEntity
	p.expect("a 4xx", p.github(h, "s", "d4", "{}"), 422, false, 7)
	p.expect("and again", p.github(h, "s", "d4", "{}"), 422, true, 7)
	time.Sleep(4 * 24 * time.Hour)
	p.expect("after the ttl", p.github(h, "s", "d1", "{}"), 422, false, 8)
}

func TestWebhooksRunOnceAndUnsignedOnesLeaveNothing(t *testing.T) {
	always := func(http.Header, []byte) bool { return true }
	for name, mount := range map[string]func(g *guard.Guard, p *provider) http.Handler{
		"": func(g *guard.Guard, p *provider) http.Handler { return hooks(g, "s", "s", p.handle, p.handle) },

		// The check sees each of these mistakes.
		"Idempotent before the signature": func(g *guard.Guard, p *provider) http.Handler {
			r := gin.New()
			once := lockmw.Idempotent(g, keyfunc.Static("github:acme"), 4*24*time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery")), httpopt.WithoutFingerprint())
			r.POST("/hooks/github", once, signed("github:acme", byGitHub("s")), p.handle)
			r.NoRoute(gin.WrapH(hooks(g, "s", "s", p.handle, p.handle)))
			return r
		},
		"no signature": func(g *guard.Guard, p *provider) http.Handler {
			r := gin.New()
			once := lockmw.Idempotent(g, keyfunc.FromContext(accountOf), 4*24*time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery")), httpopt.WithoutFingerprint())
			r.POST("/hooks/github", signed("github:acme", always), once, p.handle)
			r.NoRoute(gin.WrapH(hooks(g, "s", "s", p.handle, p.handle)))
			return r
		},
		"nothing says whose it is": func(g *guard.Guard, p *provider) http.Handler {
			r := gin.New()
			once := lockmw.Idempotent(g, keyfunc.FromContext(accountOf), time.Hour, httpopt.WithoutFingerprint())
			r.POST("/hooks/github", once, p.handle)
			r.NoRoute(gin.WrapH(hooks(g, "s", "s", p.handle, p.handle)))
			return r
		},
		"one account": func(g *guard.Guard, p *provider) http.Handler {
			r := gin.New()
			once := lockmw.Idempotent(g, keyfunc.Static("all"), 4*24*time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.JSON("id")), httpopt.WithoutFingerprint())
			header := lockmw.Idempotent(g, keyfunc.Static("all"), 4*24*time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery")), httpopt.WithoutFingerprint())
			r.POST("/hooks/stripe", signed("", byStripe("s")), once, p.handle)
			r.POST("/hooks/github", signed("", byGitHub("s")), header, p.handle)
			return r
		},
		"the whole body is compared": func(g *guard.Guard, p *provider) http.Handler {
			r := gin.New()
			once := lockmw.Idempotent(g, keyfunc.FromContext(accountOf), 4*24*time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.JSON("id")))
			r.POST("/hooks/stripe", signed("stripe:acct_1", byStripe("s")), once, p.handle)
			r.NoRoute(gin.WrapH(hooks(g, "s", "s", p.handle, p.handle)))
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p := guardtest.New(t).Guard, &provider{T: t}
				p.deliver(g, mount(g, p))
				if sound := name == ""; sound != (p.problem == nil) {
					t.Errorf("found %q", p.problem)
				}
			})
		})
	}
}

func TestADeliveryThatComesMeanwhileGetsTheSameAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{T: t, status: http.StatusAccepted}
		h := hooks(guardtest.New(t).Guard, "s", "s", p.handle, p.handle)
		got := make(chan string, 5)
		for range cap(got) {
			go func() { got <- p.github(h, "s", "d1", "{}").Body.String() }()
		}
		for range cap(got) {
			if text := <-got; text != "run 1" {
				t.Errorf("got %s", text)
			}
		}
	})
}
