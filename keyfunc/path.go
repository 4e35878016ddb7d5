package keyfunc

import (
	"net/http"
	"strings"
)

// Path returns the Func of the path parameter name, as the router matched and
// decoded it: the request's PathValue, which net/http's ServeMux and chi set
// themselves and [SetPath] sets for every other router.
//
// An empty parameter is [ErrMissing]. A parameter that the route does not have
// is [ErrNoSource]; so is one in a middleware that runs before the router has
// matched, as around a ServeMux or in chi's Use: guard the route instead.
func Path(name string) Func {
	return func(r *http.Request) (string, error) { return pathValue(r, nil, name) }
}

// pathValue returns the path parameter name of p, or of r itself if that is
// nil.
func pathValue(r *http.Request, p Params, name string) (string, error) {
	var v string
	var present bool
	if p != nil {
		v, present = p.Param(name)
	} else if v = r.PathValue(name); v == "" {
		present = r.PathValue(emptyMark+name) != "" || inPattern(r.Pattern, name)
	}
	switch {
	case v != "":
		return v, nil
	case present:
		return "", &Error{"path", name, ErrMissing}
	}
	return "", &Error{"path", name, ErrNoSource}
}

// SetPath records a path parameter of the matched route for [Path]. It is for
// adapters of routers that keep their parameters to themselves; like
// [http.Request.SetPathValue] it changes r, but an empty value counts as
// present.
func SetPath(r *http.Request, name, value string) {
	r.SetPathValue(name, value)
	if value == "" {
		r.SetPathValue(emptyMark+name, "1")
	}
}

// emptyMark goes before the name of a parameter that is present and empty:
// PathValue cannot tell it from an absent one. No router has such a name.
const emptyMark = "\x00"

// inPattern reports whether a pattern has the wildcard name: {name}, {name...}
// or {name:regexp} of ServeMux and chi, :name of echo, or a '*' at the end of
// either.
func inPattern(pattern, name string) bool {
	if name == "*" {
		return strings.HasSuffix(pattern, "/*")
	}
	if strings.HasSuffix(pattern, "/:"+name) || strings.Contains(pattern, "/:"+name+"/") {
		return true
	}
	for {
		_, rest, found := strings.Cut(pattern, "{"+name)
		if !found {
			return false
		}
		if strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, "...}") || strings.HasPrefix(rest, ":") {
			return true
		}
		pattern = rest
	}
}
