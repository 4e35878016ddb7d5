package keyfunc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParseTemplate reads a template. It returns the same errors as [Parse].
func ParseTemplate(template string) (*Template, error) { return parse(template, false) }

// parse reads a template, which may have a list if lists is true.
func parse(template string, lists bool) (*Template, error) {
	t := &Template{}
	for at := 0; ; {
		p, end, err := parsePart(template, at)
		if err != nil {
			return nil, err
		}
		if problem := t.addList(&p, lists); problem != "" {
			return nil, refuse(template, at+len(p.before)+1, problem)
		}
		t.parts = append(t.parts, p)
		if end == len(template) {
			return t, nil
		}
		at = end + 1
	}
}

// parsePart reads the part of t that starts at start. The part ends before the
// next ':' or at the end of t, and parsePart returns that index.
func parsePart(t string, start int) (p part, end int, err error) {
	after := start // start of the text behind the placeholder
	i := start
	for ; i < len(t) && t[i] != ':'; i++ {
		switch t[i] {
		case '}':
			return p, 0, refuse(t, i, "'}' without '{'")
		case '{':
			if p.source != "" {
				return p, 0, refuse(t, i, "second placeholder in one part, separate them with ':'")
			}
			size := strings.IndexByte(t[i:], '}')
			if size < 0 {
				return p, 0, refuse(t, i, "'{' without '}'")
			}
			if at, problem := p.placeholder(t[i+1 : i+size]); problem != "" {
				return p, 0, refuse(t, i+1+at, problem)
			}
			p.before = t[start:i]
			i += size
			after = i + 1
		default:
			if problem := slip(t[start:i], t[i:]); problem != "" {
				return p, 0, refuse(t, i, problem)
			}
		}
	}
	switch {
	case i == start:
		return p, 0, refuse(t, i, "empty part")
	case p.source == "":
		p.before = t[start:i]
	default:
		p.after = t[after:i]
	}
	return p, i, nil
}

// placeholder reads the text between two braces. If it is wrong, placeholder
// returns the problem and the byte where it is.
func (p *part) placeholder(text string) (at int, problem string) {
	from, rest, more := strings.Cut(text, "|")
	if problem = p.origin(from); problem != "" {
		return 0, problem
	}
	for more {
		at = len(text) - len(rest)
		var name string
		name, rest, more = strings.Cut(rest, "|")
		to, problem := normalizer(name)
		if problem != "" {
			return at, problem
		}
		p.steps = append(p.steps, to)
		p.exact = p.exact || name == "int"
	}
	return 0, ""
}

// sources are the Funcs that a template can name with a prefix.
var sources = map[string]func(name string) Func{
	"query": Query, "header": Header, "cookie": Cookie, "form": Form, "json": JSON,
}

// origin reads the origin of the value, which is a name or source.name.
func (p *part) origin(text string) (problem string) {
	prefix, name, dotted := strings.Cut(text, ".")
	if !dotted {
		name = text
	}
	find, known := sources[prefix]
	switch {
	case text == "body":
		p.source, p.find = "body", Body()
		return ""
	case text == "*": // the rest of the path, as chi and echo call it
	case name == "" || strings.ContainsFunc(name, notInName):
		return fmt.Sprintf("%q is not a name", name)
	case dotted && !known:
		return fmt.Sprintf("unknown source %q, want a path parameter, body, or a name after query, header, cookie, "+
			"form or json and a dot", prefix)
	}
	p.source, p.name = "path", name
	if dotted {
		p.source, p.find = prefix, find(name)
	}
	if p.source == "json" {
		return p.element(name)
	}
	return ""
}

// normalizer returns the step that text names. An argument follows the '='.
func normalizer(text string) (to step, problem string) {
	name, arg, given := strings.Cut(text, "=")
	switch name {
	case "int":
		to = toInt
	case "uuid":
		to = toUUID
	case "nonzero":
		to = toNonZero
	case "lower":
		to = toLower
	case "trim":
		to = toTrimmed
	case "maxlen":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return nil, "want maxlen=n with n of at least 1"
		}
		return atMost(n), ""
	case "oneof":
		values := strings.Split(arg, ",")
		if slices.Contains(values, "") || strings.Contains(arg, "{") {
			return nil, "want oneof=a,b with values that are not empty"
		}
		return amongst(values), ""
	default:
		return nil, fmt.Sprintf("unknown normalizer %q, want int, uuid, nonzero, lower, trim, "+
			"maxlen=n or oneof=a,b", name)
	}
	if given {
		return nil, name + " takes no argument"
	}
	return to, ""
}

// notInName reports whether names in templates must not contain r. Some of
// these characters are reserved for later syntax.
func notInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.[]", r)
}

func refuse(template string, at int, problem string) error {
	column := utf8.RuneCountInString(template[:at]) + 1
	return fmt.Errorf("keyfunc: template %q, column %d: %s", template, column, problem)
}
