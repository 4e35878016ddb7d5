package lockmw

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard/internal/echoguard"
)

// version is what echo v5 does in its own way, see [echoguard.Version].
type version struct{}

var routes = echoguard.New[*echo.Context, echo.HandlerFunc, echo.MiddlewareFunc](version{}, "echov5")

func (version) ParamAt(c *echo.Context, i int) (name, value string, more bool) {
	if all := c.PathValues(); i < len(all) {
		return all[i].Name, all[i].Value, true
	}
	return "", "", false
}

// AsSent compares lengths, because nobody can read the setting by which the
// router decodes parameters of a path of unusual spelling. Only undecoded values
// fill the pattern to the length of the path.
func (version) AsSent(c *echo.Context) bool {
	sent := c.Request().URL.RawPath
	if sent == "" {
		return false
	}
	text, values := c.Path(), 0
	for _, p := range c.PathValues() {
		name := ":" + p.Name
		if p.Name == "*" {
			name = p.Name
		}
		text = strings.Replace(text, name, "", 1)
		values += len(p.Value)
	}
	return len(strings.ReplaceAll(text, `\:`, ":"))+values == len(sent)
}

func (version) Unmatched(c *echo.Context) bool {
	name := c.RouteInfo().Name
	return name == echo.NotFoundRouteName || name == echo.MethodNotAllowedRouteName
}

// Moved returns false, because no middleware of echo v5 runs others in another
// goroutine.
func (version) Moved([]string) bool { return false }

func (version) Response(c *echo.Context) http.ResponseWriter       { return c.Response() }
func (version) SetResponse(c *echo.Context, w http.ResponseWriter) { c.SetResponse(w) }
func (version) HandleError(c *echo.Context, err error)             { c.Echo().HTTPErrorHandler(c, err) }

func (version) NewResponse(c *echo.Context, held *echoguard.Capture) http.ResponseWriter {
	return echo.NewResponse(held, c.Logger())
}

// Committed looks through the wrappers of other middleware.
func (version) Committed(c *echo.Context) (begun *bool, below http.ResponseWriter) {
	if r, _ := echo.UnwrapResponse(c.Response()); r != nil {
		return &r.Committed, r.ResponseWriter
	}
	return new(bool), nil
}

func (version) Status(c *echo.Context) int {
	_, status := echo.ResolveResponseStatus(c.Response(), nil)
	return status
}

func (version) TooLarge(err error) error {
	if errors.Is(err, echo.ErrStatusRequestEntityTooLarge) {
		return echo.ErrStatusRequestEntityTooLarge
	}
	return nil
}

func (version) Error(p echoguard.Problem, cause error) error {
	he := echo.HTTPError{Code: p.Status, Message: p.Detail}
	return &problem{he.Wrap(cause).(*echo.HTTPError), &p} //nolint:errorlint // what Wrap makes
}

func (version) Find(err error) (p *echoguard.Problem, cause error) {
	if e := (*problem)(nil); errors.As(err, &e) {
		return e.is, e.HTTPError.Unwrap()
	}
	return nil, nil
}

// problem is the error that echo's error handlers answer. The problem is one of
// echo's own errors with the body of an outcome.
type problem struct {
	*echo.HTTPError

	is *echoguard.Problem
}

var _ echo.ProblemErrorer = (*problem)(nil)

// Unwrap returns the *echo.HTTPError, which wraps the cause. Some error
// handlers look for one.
func (p *problem) Unwrap() error                { return p.HTTPError }
func (p *problem) MarshalJSON() ([]byte, error) { return p.is.MarshalJSON() }

// ProblemError is for echo.ProblemDetailsHTTPErrorHandler. An echo.ProblemError
// has no place for the code.
func (p *problem) ProblemError() *echo.ProblemError {
	return &echo.ProblemError{Status: p.is.Status, Detail: p.is.Detail}
}
