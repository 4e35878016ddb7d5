package recipes_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/outcome"
)

// The code of envelope.md.

// reply is the one form of all answers.
type reply struct {
	Code int    `json:"code"`
	Msg  string `json:"msg"`
	Data any    `json:"data"`
}

// codes are the numbers of your house for what locks have to say.
var codes = map[outcome.Code]int{
	outcome.CodeHeld:          40901,
	outcome.CodeQueueFull:     42901,
	outcome.CodeUnavailable:   50301,
	outcome.CodeWaitAborted:   50302,
	outcome.CodeLost:          50001,
	outcome.CodeKeyInvalid:    40001,
	outcome.CodeBodyTooLarge:  41301,
	outcome.CodeMediaType:     41501,
	outcome.CodeTooManyKeys:   41302,
	outcome.CodeMisconfigured: 50002,

	outcome.CodeIdempotencyInvalid:     40002,
	outcome.CodeIdempotencyReused:      42201,
	outcome.CodeIdempotencyGone:        40902,
	outcome.CodeIdempotencyInterrupted: 40903,
}

// number returns the number of code, and never 0, which says that all went well.
func number(code outcome.Code) int {
	if n, known := codes[code]; known {
		return n
	}
	return 50000 // not of a lock, or of a later version
}

// refusal is the answer to an error of a lock. It sets Retry-After in h.
func refusal(ctx context.Context, h http.Header, err error) (status int, body reply) {
	o, ours := outcome.Of(ctx, err)
	if !ours { // of a key function of yours, and in the log
		o = outcome.Outcome{Status: http.StatusInternalServerError, Detail: "Something went wrong."}
	}
	o.Prepare(h)
	h.Set("Content-Type", "application/json; charset=utf-8")
	return o.Status, reply{Code: number(o.Code), Msg: o.Detail}
}

// always200 is for clients that look at code alone.
func always200(_ int, body reply) (int, reply) { return http.StatusOK, body }

type envelopeMounts struct {
	all    func(g *guard.Guard, key keyfunc.Func, order http.HandlerFunc) http.Handler
	always func(g *guard.Guard, order http.HandlerFunc) http.Handler
}

var envelopes = map[string]envelopeMounts{
	"gin": {ginEnvelope, ginAlways200}, "echo": {echoEnvelope, echoAlways200}, "net/http": {netEnvelope, netAlways200},
}

const (
	heldText = `"msg":"Another request is working on the same resource. Try again later.","data":null}`
	downText = `"msg":"The lock service cannot answer. Try again later.","data":null}`
	badText  = `"msg":"The path parameter \"sku\", which names the resource to lock, is malformed.","data":null}`
)

func TestEveryAnswerOfALockIsInTheEnvelope(t *testing.T) {
	for name, mount := range envelopes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlocker.New()
				g, err := guard.New(store, guard.WithMaxWait(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
				broken := func(*http.Request) (string, error) { return "", errors.New("no tenant") }
				order := func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"code":0,"msg":"ok","data":null}`))
				}
				all, always := mount.all(g, broken, order), mount.always(g, order)
				ask := func(h http.Handler, target string, status int, body string) {
					t.Helper()
					w := send(h, http.MethodPost, target, "", "")
					again := w.Header().Get("Retry-After") != ""
					if w.Code != status || strings.TrimSpace(w.Body.String()) != body ||
						again != strings.Contains(body, "Try again") {
						t.Errorf("%s: got %d %v %s", target, w.Code, w.Header(), w.Body)
					}
					if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
						t.Errorf("%s: the type is %q", target, got)
					}
				}
				const sku = "/skus/7/orders"
				ask(all, sku, http.StatusOK, `{"code":0,"msg":"ok","data":null}`)
				_ = g.Do(t.Context(), guard.Key("stock", 7), func(context.Context) error {
					ask(all, sku, http.StatusConflict, `{"code":40901,`+heldText)
					ask(always, sku, http.StatusOK, `{"code":40901,`+heldText)
					return nil
				})
				ask(all, "/skus/x/orders", http.StatusBadRequest, `{"code":40001,`+badText)
				ask(always, "/skus/x/orders", http.StatusOK, `{"code":40001,`+badText)
				ask(all, "/own", http.StatusInternalServerError, `{"code":50000,"msg":"Something went wrong.","data":null}`)
				mend := store.Break()
				ask(all, sku, http.StatusServiceUnavailable, `{"code":50301,`+downText)
				ask(always, sku, http.StatusOK, `{"code":50301,`+downText)
				mend()
			})
		})
	}
}

func TestEveryOutcomeHasANumber(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	blame := func(err error) error { return &keyfunc.Error{Source: "idempotency", Err: err} }
	seen := map[outcome.Code]bool{}
	for _, err := range []error{
		&guard.HeldError{}, guard.ErrQueueFull, guard.ErrUnavailable,
		errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded), guard.ErrLeaseLost, guard.ErrNoDefault,
		&keyfunc.Error{Source: "path", Name: "sku", Err: keyfunc.ErrMissing},
		&keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrTooLarge},
		&keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMediaType}, keyfunc.ErrTooManyKeys,
		blame(keyfunc.ErrMissing), blame(guard.ErrOtherPayload), blame(guard.ErrResultGone),
		blame(guard.ErrInterrupted),
		errors.New("own"), errors.Join(guard.ErrNotAcquired, context.Canceled),
	} {
		o, _ := outcome.Of(t.Context(), err)
		seen[o.Code] = true
		status, body := refusal(t.Context(), http.Header{}, err)
		if o.Status != 0 && status != o.Status || body.Code == 0 || body.Msg == "" {
			t.Errorf("%v: %d %+v", err, status, body)
		}
	}
	all := codesOfOutcome(t)
	for _, code := range all {
		if _, known := codes[code]; !known || !seen[code] {
			t.Errorf("%s: has a number %v, tried %v", code, known, seen[code])
		}
	}
	if len(codes) != len(all) {
		t.Errorf("%d codes have a number, and there are %d", len(codes), len(all))
	}
	if n := number("lock_of_a_later_version"); n == 0 {
		t.Error("a code that nobody knows looks like a success")
	}
	gone := errors.Join(guard.ErrNotAcquired, context.Canceled)
	if status, _ := refusal(ended, http.Header{}, gone); status != outcome.ClientGone {
		t.Errorf("a client that has gone gets %d", status)
	}
}

// codesOfOutcome returns the codes that package outcome declares.
func codesOfOutcome(t *testing.T) (all []outcome.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../outcome/outcome.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, outcome.Code(code))
		}
		return true
	})
	return all
}
