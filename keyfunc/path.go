package keyfunc

import (
	"net/http"
	"strings"
)

// Path returns the Func of the path parameter name, as the router matched and
// decoded it. It reads the request's PathValue. net/http's ServeMux and chi set
// that themselves, and [SetPath] sets it for every other router.
//
// An empty parameter is [ErrMissing]. A parameter that the route does not have
// is [ErrNoSource]. The error is also [ErrNoSource] in a middleware that runs
// before the router has matched, as around a ServeMux or in chi's Use. Guard
// the route instead.
func Path(name string) Func {
	return func(r *http.Request) (string, error) { return pathValue(r, nil, name) }
}

// pathValue returns the path parameter name of p, or of r itself if p is nil.
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
// adapters of routers that do not pass on their parameters. SetPath changes r,
// as [http.Request.SetPathValue] does, but an empty value counts as present.
func SetPath(r *http.Request, name, value string) {
	r.SetPathValue(name, value)
	if value == "" {
		r.SetPathValue(emptyMark+name, "1")
	}
}

// emptyMark is put before the name of a parameter that is present and empty,
// because PathValue cannot tell it from an absent one. No router has such a
// name.
const emptyMark = "\x00"

// inPattern reports whether a pattern has the wildcard name. ServeMux and chi
// write {name}, {name...} or {name:regexp}, and echo writes :name. In either a
// '*' at the end is a wildcard.
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
