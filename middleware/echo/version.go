package lockmw

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard/internal/echoguard"
)

// version is what echo v4 does in its own way, see [echoguard.Version].
type version struct{}

var routes = echoguard.New[echo.Context, echo.HandlerFunc, echo.MiddlewareFunc](version{}, "echo")

func (version) ParamAt(c echo.Context, i int) (name, value string, more bool) {
	if names := c.ParamNames(); i < len(names) {
		return names[i], c.ParamValues()[i], true
	}
	return "", "", false
}

func (version) AsSent(c echo.Context) bool { return c.Request().URL.RawPath != "" }

// Unmatched looks at the parameters too. If echo's own handler has a path with
// parameters, they have no values.
func (version) Unmatched(c echo.Context) bool {
	return len(c.ParamNames()) == 0 && (c.Path() == "" || strings.ContainsAny(c.Path(), ":*"))
}

// Moved looks for echo's own Timeout.
func (version) Moved(stack []string) bool {
	return slices.Contains(stack, "github.com/labstack/echo/v4/middleware.echoHandlerFuncWrapper.ServeHTTP")
}

func (version) Response(c echo.Context) http.ResponseWriter       { return c.Response() }
func (version) SetResponse(c echo.Context, w http.ResponseWriter) { c.SetResponse(w.(*echo.Response)) }
func (version) Status(c echo.Context) int                         { return c.Response().Status }
func (version) HandleError(c echo.Context, err error)             { c.Echo().HTTPErrorHandler(err, c) }

func (version) NewResponse(c echo.Context, held *echoguard.Capture) http.ResponseWriter {
	return echo.NewResponse(held, c.Echo())
}

func (version) Committed(c echo.Context) (begun *bool, below http.ResponseWriter) {
	return &c.Response().Committed, c.Response().Writer
}

func (version) TooLarge(err error) error {
	if limit := (*echo.HTTPError)(nil); errors.As(err, &limit) {
		return limit
	}
	return nil
}

// Error returns an *echo.HTTPError with p as its message.
func (version) Error(p echoguard.Problem, cause error) error {
	return &echo.HTTPError{Code: p.Status, Message: &p, Internal: cause}
}

func (version) Find(err error) (p *echoguard.Problem, cause error) {
	if he := (*echo.HTTPError)(nil); errors.As(err, &he) {
		p, _ = he.Message.(*echoguard.Problem)
		cause = he.Internal
	}
	return p, cause
}
