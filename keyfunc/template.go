package keyfunc

import (
	"fmt"
	"net/http"
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
			var problem string
			if value, problem = placeholder(t[i+1 : i+size]); problem != "" {
				return nil, 0, refuse(t, i+1, problem)
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

// placeholder returns the Func of the text between two braces, or what is wrong with it.
func placeholder(text string) (value Func, problem string) {
	source, name, dotted := strings.Cut(text, ".")
	if !dotted {
		source, name = "path", text
	}
	if name == "" || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Sprintf("%q is not a name", name)
	}
	switch {
	case !dotted:
		return Path(name), ""
	case source == "query":
		return Query(name), ""
	case source == "header":
		return Header(name), ""
	}
	return nil, fmt.Sprintf("unknown source %q, want a path parameter or query.name or header.name", source)
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
