package lockmw

import (
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	writer

	keys    func(*http.Request) (httpguard.Keys, error)
	next    http.Handler
	answers answers // for the handlers inside
}

func (x *exchange) Request() *http.Request        { return x.request }
func (x *exchange) Keys() (httpguard.Keys, error) { return x.keys(x.request) }
func (x *exchange) Begun() bool                   { return x.begun }
func (x *exchange) Pattern() string               { return x.request.Pattern }
func (x *exchange) Failed() bool                  { return x.status >= 400 }

// Next serves the request under l.
func (x *exchange) Next(l *guard.Lease) {
	ctx := l.Context()
	if x.answers.Any() {
		ctx = inside(ctx, x.answers)
	}
	served := x.request.WithContext(ctx)
	defer httpguard.GiveBack(x.request, served)
	x.next.ServeHTTP(x.shaped(), served)
}
