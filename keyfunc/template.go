package keyfunc

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parse returns the Func that a template describes. A ':' separates the parts of the key; a part is text, or one
// placeholder with or without text around it:
//
//	{sku}               the path parameter sku
//	{query.sku}         the query parameter sku
//	{header.X-Tenant}   the header X-Tenant
//	{cookie.cart}       the cookie cart
//	{form.sku}          the form field sku
//	{json.sku}          the member sku of a JSON body
//
// The value may be put into one form first, by one or more of
//
//	{id|int}  {id|uuid}  {header.X-Tenant|trim|lower}  {query.q|maxlen=64}  {kind|oneof=cart,order}
//
// which are the methods of [Func] with these names.
//
// "stock:{sku}" is guard.Key("stock", sku), and "stock:sku-{sku}" is guard.Key("stock", "sku-"+sku). Two placeholders
// in one part are refused: "{a}-{b}" would be one key for different a and b. So are empty parts and braces that do not
// make a placeholder. The error names the column, in characters from 1.
func Parse(template string) (Func, error) {
	var parts []Func
	for at := 0; ; {
		part, end, err := parsePart(template, at)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if end == len(template) {
			return Join(parts...), nil
		}
		at = end + 1
	}
}

// MustParse is [Parse] for templates in the source code: it panics where Parse returns an error.
func MustParse(template string) Func {
	f, err := Parse(template)
	if err != nil {
		panic(err)
	}
	return f
}

// parsePart reads the part of t that starts at start, and returns where it ends: at a ':' or at the end of t.
func parsePart(t string, start int) (part Func, end int, err error) {
	var value Func // of the placeholder, if there is one; it stands between before and after
	var before string
	after := start // where the text behind the placeholder starts
	i := start
	for ; i < len(t) && t[i] != ':'; i++ {
		switch t[i] {
		case '}':
			return nil, 0, refuse(t, i, "'}' without '{'")
		case '{':
			if value != nil {
				return nil, 0, refuse(t, i, "second placeholder in one part, separate them with ':'")
			}
			size := strings.IndexByte(t[i:], '}')
			if size < 0 {
				return nil, 0, refuse(t, i, "'{' without '}'")
			}
			var at int
			var problem string
			if value, at, problem = placeholder(t[i+1 : i+size]); problem != "" {
				return nil, 0, refuse(t, i+1+at, problem)
			}
			before = t[start:i]
			i += size
			after = i + 1
		}
	}
	switch {
	case i == start:
		return nil, 0, refuse(t, i, "empty part")
	case value == nil:
		return Static(t[start:i]), i, nil
	}
	return around(before, value, t[after:i]), i, nil
}

// placeholder returns the Func of the text between two braces, or what is wrong with it, and at which byte.
func placeholder(text string) (value Func, at int, problem string) {
	from, rest, more := strings.Cut(text, "|")
	if value, problem = source(from); problem != "" {
		return nil, 0, problem
	}
	for more {
		at = len(text) - len(rest)
		var step string
		step, rest, more = strings.Cut(rest, "|")
		if value, problem = normalizer(value, step); problem != "" {
			return nil, at, problem
		}
	}
	return value, 0, ""
}

// sources are the Funcs that a template can name with a prefix.
var sources = map[string]func(name string) Func{"query": Query, "header": Header, "cookie": Cookie, "form": Form, "json": JSON}

// source returns the Func of a name, or of source.name.
func source(text string) (value Func, problem string) {
	prefix, name, dotted := strings.Cut(text, ".")
	if !dotted {
		name = text
	}
	from, known := sources[prefix]
	switch {
	case name == "" || strings.ContainsFunc(name, notInName):
		return nil, fmt.Sprintf("%q is not a name", name)
	case !dotted:
		return Path(name), ""
	case !known:
		return nil, fmt.Sprintf("unknown source %q, want a path parameter, or a name after query, header, cookie, form or json and a dot", prefix)
	}
	return from(name), ""
}

// normalizer returns f with the normalizer that text names, and its argument after '='.
func normalizer(f Func, text string) (value Func, problem string) {
	name, arg, given := strings.Cut(text, "=")
	switch name {
	case "int":
		value = f.Int()
	case "uuid":
		value = f.UUID()
	case "lower":
		value = f.Lower()
	case "trim":
		value = f.Trim()
	case "maxlen":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return nil, "want maxlen=n with n of at least 1"
		}
		return f.MaxLen(n), ""
	case "oneof":
		values := strings.Split(arg, ",")
		if slices.Contains(values, "") || strings.Contains(arg, "{") {
			return nil, "want oneof=a,b with values that are not empty"
		}
		return f.OneOf(values...), ""
	default:
		return nil, fmt.Sprintf("unknown normalizer %q, want int, uuid, lower, trim, maxlen=n or oneof=a,b", name)
	}
	if given {
		return nil, name + " takes no argument"
	}
	return value, ""
}

// notInName reports whether r is kept out of names in templates, among them what later syntax may need.
func notInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.[]", r)
}

// around returns value with fixed text before and after it: still one part, so that it is escaped as a whole.
func around(before string, value Func, after string) Func {
	if before == "" && after == "" {
		return value
	}
	return func(r *http.Request) (string, error) {
		v, err := value(r)
		if err != nil {
			return "", err
		}
		return before + v + after, nil
	}
}

func refuse(template string, at int, problem string) error {
	column := utf8.RuneCountInString(template[:at]) + 1
	return fmt.Errorf("keyfunc: template %q, column %d: %s", template, column, problem)
}
