package httpguard

import (
	"net/http"

	"github.com/go-lockguard/guard/keyfunc"
)

// Source derives the keys of requests.
type Source struct {
	Path bool // it looks at the path and the framework's context alone
	keys func(Sourced) (Keys, error)
}

// Sourced is a request as a Source sees it.
type Sourced interface {
	Request() *http.Request
	Params() keyfunc.Params // nil means those of Request
	SetPath()               // records the path parameters in Request
}

// Keys derives the keys of x.
func (s Source) Keys(x Sourced) (Keys, error) { return s.keys(x) }

// OfTemplate is the Source of an adapter's Key. OfTemplate panics if text is no
// template or has no placeholder. A missing placeholder is nearly always a
// misspelled one, and would silently lock all requests by one key.
func OfTemplate(text string) Source {
	t := must(keyfunc.ParseTemplate(text))
	refuseConstant(t, text)
	return Source{t.PathOnly(), func(x Sourced) (Keys, error) { return One(t.Key(x.Request(), x.Params())) }}
}

// OfTemplates is the Source of an adapter's Keys. OfTemplates panics if there
// is no template, or if one is bad or has no placeholder.
func OfTemplates(texts []string) Source {
	ts := must(keyfunc.ParseTemplates(texts...))
	for i, t := range ts {
		refuseConstant(t, texts[i])
	}
	return Source{ts.PathOnly(), func(x Sourced) (Keys, error) { return All(ts.Keys(x.Request(), x.Params())) }}
}

// OfConstant is the Source of an adapter's Static. OfConstant panics if text is
// no template or has a placeholder.
func OfConstant(text string) Source {
	t := must(keyfunc.ParseTemplate(text))
	PanicIf(!t.Constant(), "the key %q of Static has a placeholder: use lockmw.Key", text)
	key := must(t.Key(nil, nil))
	return Source{true, func(Sourced) (Keys, error) { return One(key, nil) }}
}

// OfRequest is the Source of an adapter's KeyFunc. OfRequest panics if key is
// nil.
func OfRequest(key keyfunc.Func) Source {
	PanicIf(key == nil, NilKeyFunc)
	return Source{false, func(x Sourced) (Keys, error) {
		x.SetPath()
		return One(key(x.Request()))
	}}
}

// SeveralOfRequest is the Source of an adapter's KeysFunc. SeveralOfRequest
// panics if keys is nil.
func SeveralOfRequest(keys func(*http.Request) ([]string, error)) Source {
	PanicIf(keys == nil, NilKeyFunc)
	return Source{false, func(x Sourced) (Keys, error) {
		x.SetPath()
		return All(keys(x.Request()))
	}}
}

// OfContext is the Source of an adapter's KeyFrom. OfContext panics if key is
// nil. The adapter's Sourced must have a method Context that returns a C.
func OfContext[C any](key func(C) (string, error)) Source {
	PanicIf(key == nil, NilKeyFunc)
	return Source{true, func(x Sourced) (Keys, error) { return One(key(x.(interface{ Context() C }).Context())) }}
}

// ScopeOfRequest is the Source of an adapter's Idempotent. ScopeOfRequest panics
// if scope is nil.
func ScopeOfRequest(scope keyfunc.Func) Source {
	PanicIf(scope == nil, NilScope)
	return OfRequest(scope)
}

// ScopeOfContext is the Source of an adapter's IdempotentFrom, as [OfContext] is
// that of its KeyFrom. ScopeOfContext panics if scope is nil.
func ScopeOfContext[C any](scope func(C) (string, error)) Source {
	PanicIf(scope == nil, NilScope)
	return OfContext(scope)
}

// refuseConstant panics if t, which text describes, has no placeholder.
func refuseConstant(t *keyfunc.Template, text string) {
	PanicIf(t.Constant(), "template %q has no placeholder like {sku}, so all requests would wait for one key. "+
		"If you mean that, use lockmw.Static", text)
}
