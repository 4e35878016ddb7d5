package lockmw

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard/outcome"
)

// problem is the error that echo's error handlers answer. It is one of echo's
// own errors with the body of an outcome.
type problem struct {
	*echo.HTTPError

	outcome outcome.Outcome
	header  http.Header // of the response, once the middleware has prepared it
}

var (
	_ echo.HTTPStatusCoder = (*problem)(nil)
	_ echo.ProblemErrorer  = (*problem)(nil)
	_ json.Marshaler       = (*problem)(nil)
)

func newProblem(o outcome.Outcome, cause error, header http.Header) *problem {
	he := echo.HTTPError{Code: o.Status, Message: o.Detail}
	return &problem{he.Wrap(cause).(*echo.HTTPError), o, header} //nolint:errorlint // what Wrap makes
}

// Unwrap returns the *echo.HTTPError, which wraps the cause. Some error
// handlers look for one.
func (p *problem) Unwrap() error { return p.HTTPError }

// MarshalJSON returns the body and sets the media type of the response. It does
// not set it earlier, because an application's own error handler may write
// something else.
func (p *problem) MarshalJSON() ([]byte, error) {
	if p.header != nil {
		p.header.Set(echo.HeaderContentType, outcome.ContentType)
	}
	return p.outcome.Body(), nil
}

// ProblemError is for echo.ProblemDetailsHTTPErrorHandler. An echo.ProblemError
// has no place for the code.
func (p *problem) ProblemError() *echo.ProblemError {
	return &echo.ProblemError{Status: p.outcome.Status, Detail: p.outcome.Detail}
}
