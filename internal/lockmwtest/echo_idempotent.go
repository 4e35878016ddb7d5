package lockmwtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// payAs sends a payment of user, with the key k, to app.
func payAs(t *testing.T, app http.Handler, user string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("X-User", user)
	return send(app, req)
}

// echo's response takes an informational answer for the answer. A handler that
// fails after it has not answered.
func (e Echo[C, H, M]) afterHint(t *testing.T) {
	t.Helper()
	runs := 0
	app := e.App(nil, nil, map[string]H{"POST /pay": func(c C) error {
		runs++
		e.Response(c).WriteHeader(http.StatusEarlyHints)
		return e.NewError(http.StatusPaymentRequired, "no money", nil)
	}}, e.Verbs.Idempotent(heldKey(t), keyfunc.Static("shop"), time.Hour))
	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/pay", http.NoBody)
		req.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		app.ServeHTTP(unhinted{w}, req)
		if w.Code != http.StatusPaymentRequired || !strings.Contains(w.Body.String(), "no money") || runs != 1 {
			t.Errorf("got %d %s, %d runs", w.Code, w.Body, runs)
		}
	}
}

// unhinted drops informational answers, which a recorder takes for the answer.
type unhinted struct{ *httptest.ResponseRecorder }

func (u unhinted) WriteHeader(status int) {
	if status >= http.StatusOK {
		u.ResponseRecorder.WriteHeader(status)
	}
}

// The user of an authentication is in echo's own context.
func (e Echo[C, H, M]) scopeFrom(t *testing.T) {
	t.Helper()
	runs := 0
	user := e.around(func(c C) { c.Set("user", c.Request().Header.Get("X-User")) },
		func(_ C, err error) error { return err })
	app := e.App([]M{user}, nil, map[string]H{"POST /pay": func(c C) error {
		runs++
		return c.String(http.StatusOK, c.Get("user").(string))
	}}, e.IdempotentFrom(heldKey(t), func(c C) (string, error) { return c.Get("user").(string), nil }, time.Hour))
	for i, user := range []string{"ann", "bob", "ann"} {
		if w := payAs(t, app, user); w.Body.String() != user || replayed(w) != (i == 2) {
			t.Errorf("%s got %d %s, replay %v", user, w.Code, w.Body, replayed(w))
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func (e Echo[C, H, M]) nothingDone(t *testing.T) {
	t.Helper()
	for name, row := range map[string]struct {
		own    func(c C) error
		status int
	}{
		"by its error": {func(C) error {
			return guard.NothingDone(e.NewError(http.StatusBadGateway, "connection refused", nil))
		}, http.StatusBadGateway},
		"by another": {func(C) error {
			return guard.NothingDone(errors.New("connection refused"))
		}, http.StatusInternalServerError},
	} {
		g, runs := testguard.New(t, memlocker.New(), guard.WithAtMostOnce()), 0
		app := e.App(nil, nil, map[string]H{"POST /pay": func(c C) error {
			runs++
			return row.own(c)
		}}, e.Verbs.Idempotent(g, keyfunc.Static("shop"), time.Hour))
		for range 2 {
			if w := payAs(t, app, "ann"); w.Code != row.status {
				t.Errorf("%s: got %d %s", name, w.Code, w.Body)
			}
		}
		if runs != 2 {
			t.Errorf("%s: %d runs", name, runs)
		}
	}
}

// The list of methods belongs to the answer.
func (e Echo[C, H, M]) kept405(t *testing.T) {
	t.Helper()
	put := map[string]H{"PUT /pay": func(c C) error { return c.NoContent(http.StatusOK) }}
	app := e.App([]M{e.Verbs.Idempotent(heldKey(t), keyfunc.Static("shop"), time.Hour)}, nil, put)
	first, then := payAs(t, app, "ann"), payAs(t, app, "ann")
	if allow := first.Header().Get("Allow"); first.Code != http.StatusMethodNotAllowed || then.Code != first.Code ||
		allow == "" || then.Header().Get("Allow") != allow {
		t.Errorf("got %d %v, then %d %v", first.Code, first.Header(), then.Code, then.Header())
	}
}
