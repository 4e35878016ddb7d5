package keyfunc

import (
	"net/http"

	"github.com/go-lockguard/guard/internal/keyescape"
)

// Parse returns the Func that a template describes. A ':' separates the parts
// of the key. A part is text, or one placeholder with or without text around
// it:
//
//	{sku}               the path parameter sku; {*} is the wildcard of chi and echo, the rest of the path
//	{query.sku}         the query parameter sku
//	{header.X-Tenant}   the header X-Tenant
//	{cookie.cart}       the cookie cart
//	{form.sku}          the form field sku
//	{json.sku}          the member sku of a JSON body
//	{body}              the SHA-256 of the body, in hex
//
// One or more normalizers may put the value into one form:
//
//	{id|int}  {id|uuid}  {header.X-Tenant|trim|lower}  {query.q|maxlen=64}  {kind|oneof=cart,order}  {json.id|nonzero}
//
// The normalizers are the methods of [Func] with the same names. A path
// parameter that is itself called body needs [Path].
//
// "stock:{sku}" is guard.Key("stock", sku), and "stock:sku-{sku}" is
// guard.Key("stock", "sku-"+sku).
//
// Parse refuses two placeholders in one part, because "{a}-{b}" would be one
// key for different a and b. It refuses empty parts, and braces that do not
// make a placeholder. It also refuses placeholders of other languages: $sku,
// ${sku}, #sku, #{sku}, <sku>, %s, and /:sku or /*sku of a router. A '#' behind
// a letter or digit is text. It refuses full-width colons and braces. It
// refuses lists, which only [ParseKeys] has. The error names the column, in
// characters from 1.
func Parse(template string) (Func, error) {
	t, err := ParseTemplate(template)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (string, error) { return t.Key(r, nil) }, nil
}

// MustParse is [Parse] for templates in the source code. It panics if Parse
// returns an error.
func MustParse(template string) Func {
	f, err := Parse(template)
	if err != nil {
		panic(err)
	}
	return f
}

// Template is a parsed template, for adapters of routers that do not pass on
// their path parameters. With it an adapter need not copy them into each
// request with [SetPath]. Make it with [ParseTemplate]. It is safe for
// concurrent use.
type Template struct {
	parts []part
	list  string // the JSON member that has an element for each key; "" for one key
}

// Constant reports whether t has no placeholder. Then every request has the
// same key.
func (t *Template) Constant() bool {
	for i := range t.parts {
		if t.parts[i].source != "" {
			return false
		}
	}
	return true
}

// PathOnly reports whether all placeholders of t are path parameters. Then
// [Template.Key] with Params looks at nothing else of a request.
func (t *Template) PathOnly() bool {
	for i := range t.parts {
		if t.parts[i].find != nil {
			return false
		}
	}
	return true
}

// Params are the path parameters of one request. Param returns present as false
// for a parameter that the route does not have.
type Params interface {
	Param(name string) (value string, present bool)
}

// Key returns the key of r. It is the key of the Func that [Parse] makes of the
// template, with the same errors. If p is nil, the parameters in r itself are
// used.
func (t *Template) Key(r *http.Request, p Params) (string, error) {
	var short [64]byte // enough for most keys
	key := short[:0]
	for i := range t.parts {
		if i > 0 {
			key = append(key, ':')
		}
		v, err := t.parts[i].read(r, p)
		if err != nil {
			return "", err
		}
		key = t.parts[i].append(key, v)
	}
	return string(key), nil
}

// part is one part of a key. It is text, or a value with or without text around
// it.
type part struct {
	before, after string
	source, name  string // of the value; source is "" if there is none
	find          Func   // nil for a path parameter, or if there is no value
	list, member  string // of {json.list[].member}, see several.go; else ""
	steps         []step
	exact         bool // one of the steps is int
}

// append appends the part with value v to key.
func (p *part) append(key []byte, v string) []byte {
	key = keyescape.Append(key, p.before)
	key = keyescape.Append(key, v)
	return keyescape.Append(key, p.after)
}

// read returns the value of the part, or "" if it is text alone.
func (p *part) read(r *http.Request, from Params) (v string, err error) {
	switch {
	case p.source == "":
		return "", nil
	case p.find != nil:
		v, err = p.find(r)
	default:
		v, err = pathValue(r, from, p.name)
	}
	return p.normalize(v, err)
}

// normalize passes v through the normalizers of the part. It passes err on.
func (p *part) normalize(v string, err error) (string, error) {
	if p.exact {
		v, err = exact(v, err)
	}
	if err != nil {
		return "", err
	}
	for _, to := range p.steps {
		var err error
		if v, err = to.take(v, p.source, p.name); err != nil {
			return "", err
		}
	}
	return v, nil
}
