package outcome

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/keyfunc"
)

// badRequest is the outcome of a request that has no key through its own fault.
// The text says what to correct, and never contains the value.
func badRequest(err error) Outcome {
	at := errorAt(err)
	if at.Source == "body" && !errors.Is(err, keyfunc.ErrMissing) { // for every Func that reads the body
		return brokenBody(err)
	}
	if ofIdempotencyKey(err) {
		what := "header " + at.Name
		if at.Name == "" { // a function has found it
			what = cmp.Or(source(errorAt(at.Err)), "idempotency key")
		}
		return Outcome{
			Status: http.StatusBadRequest, Code: CodeIdempotencyInvalid,
			Detail: "The " + what + " is " + problem(err) + ".",
		}
	}
	where := "value that names the resource to lock"
	subject := where
	if what := source(at); what != "" {
		where, subject = what, what+", which names the resource to lock,"
	}
	if errnote.Is(err, errnote.NoLock(true)) {
		where = cmp.Or(source(at), "value that the request needs")
		subject = where
	}
	switch {
	case errors.Is(err, keyfunc.ErrTooLarge):
		return Outcome{
			Status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge,
			Detail: "The body is too large to read the " + where + " in it.",
		}
	case errors.Is(err, keyfunc.ErrMediaType):
		return Outcome{
			Status: http.StatusUnsupportedMediaType, Code: CodeMediaType,
			Detail: "The Content-Type is not one to read the " + where + " in.",
		}
	}
	return Outcome{
		Status: http.StatusBadRequest, Code: CodeKeyInvalid,
		Detail: "The " + subject + " is " + problem(err) + ".",
	}
}

// errorAt returns the error of keyfunc in err.
func errorAt(err error) *keyfunc.Error {
	at := &keyfunc.Error{}
	_ = errors.As(err, &at)
	return at
}

// ofIdempotencyKey reports whether an Idempotency-Key has caused err.
func ofIdempotencyKey(err error) bool { return errorAt(err).Source == "idempotency" }

// brokenBody is the outcome of a body that could not be read to its end.
func brokenBody(err error) Outcome {
	if errors.Is(err, keyfunc.ErrTooLarge) {
		return Outcome{
			Status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge,
			Detail: "The body is too large.",
		}
	}
	return Outcome{Status: http.StatusBadRequest, Code: CodeKeyInvalid, Detail: "The body is incomplete."}
}

// source names the place where the value should be. It is "" if the name would
// tell the client nothing.
func source(at *keyfunc.Error) string {
	kinds := map[string]string{
		"path": "path parameter", "query": "query parameter", "header": "header", "cookie": "cookie",
		"form": "form field", "json": "JSON member",
	}
	if at.Source == "body" {
		return at.Source
	}
	if kind := kinds[at.Source]; kind != "" {
		return kind + " " + strconv.Quote(at.Name)
	}
	return ""
}

func problem(err error) string {
	switch {
	case errors.Is(err, keyfunc.ErrMissing):
		return "missing or empty"
	case errors.Is(err, keyfunc.ErrAmbiguous):
		return "given more than once"
	}
	return "malformed"
}
