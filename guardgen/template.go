package main

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// keyTemplate is a key as a directive writes it, with the rules of
// keyfunc.Parse. The parts are separated by ':'. A part is text, or one
// placeholder with or without text around it. Only the placeholders differ,
// because they name a parameter.
type keyTemplate struct {
	text  string
	at    int // offset in the directive
	parts []part
}

// part is one part of a key. If value is nil the part is only the text before.
type part struct {
	before, after string
	value         selector
}

// selector is the content of a placeholder. It is a parameter followed by
// fields and methods.
type selector []step

// step is one name in a selector.
type step struct {
	name string
	call bool // name is a method, written name()
	at   int  // offset in the directive
}

// isConstant reports whether t has no placeholder.
func (t keyTemplate) isConstant() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { return p.value != nil })
}

func (p selector) String() string {
	var b strings.Builder
	for i, s := range p {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.call {
			b.WriteString("()")
		}
	}
	return b.String()
}

// problem is one mistake in a directive, at an offset in it.
type problem struct {
	at   int
	text string
}

func problemAt(at int, format string, args ...any) *problem {
	return &problem{at, fmt.Sprintf(format, args...)}
}

// parseTemplate reads the template text at offset at.
func parseTemplate(text string, at int) (keyTemplate, *problem) {
	t := keyTemplate{text: text, at: at}
	for rest := text; ; {
		p, size, wrong := parsePart(rest, at)
		if wrong != nil {
			return t, wrong
		}
		t.parts = append(t.parts, p)
		if size == len(rest) {
			return t, nil
		}
		rest = rest[size+1:]
		at += size + 1
	}
}

// parsePart reads the part at the start of t, and returns its size. A part ends
// at a ':' or at the end of t.
func parsePart(t string, at int) (p part, size int, wrong *problem) {
	after := 0 // start of the text behind the placeholder
	i := 0
	for ; i < len(t) && t[i] != ':'; i++ {
		switch t[i] {
		case '+':
			return p, 0, problemAt(at+i, "several keys are joined with ' + ', with spaces around it")
		case '$', '<', '>':
			return p, 0, problemAt(at+i, "%q makes no placeholder: write {%s}", t[i], placeholderIn(t[i+1:]))
		case '#':
			if !endsInWord(t[:i]) && startsName(t[i+1:]) {
				return p, 0, problemAt(at+i, "%q makes no placeholder: write {%s}", "#", placeholderIn(t[i+1:]))
			}
		case '%':
			if isVerb(t[i:]) {
				return p, 0, problemAt(at+i, "%q makes no placeholder: write {parameter}", t[i:i+2])
			}
		case '/':
			if name := nameIn(strings.TrimLeft(t[i+1:], ":*")); name != "" && strings.IndexByte(":*", t[i+1]) >= 0 {
				return p, 0, problemAt(at+i+1, "%q makes no placeholder: write {%s}", t[i+1:i+2]+name, name)
			}
		case '}':
			return p, 0, problemAt(at+i, "'}' without '{'")
		case '{':
			if p.value != nil {
				return p, 0, problemAt(at+i, "second placeholder in one part of the key, separate them with ':'")
			}
			end := strings.IndexByte(t[i:], '}')
			if end < 0 {
				return p, 0, problemAt(at+i, "'{' without '}'")
			}
			if p.value, wrong = parseSelector(t[i+1:i+end], at+i+1); wrong != nil {
				return p, 0, wrong
			}
			p.before = t[:i]
			i += end
			after = i + 1
		default:
			if wide, narrow := fullWidth(t[i:]); wide != "" {
				return p, 0, problemAt(at+i, "%q is a full-width character: write %s", wide, narrow)
			}
		}
	}
	if i == 0 {
		return p, 0, problemAt(at, "empty part in the key")
	}
	if p.value == nil {
		p.before = t[:i]
	} else {
		p.after = t[after:i]
	}
	return p, i, nil
}

// fullWidth returns the full-width character that t begins with, and what it
// stands for, or "". Chinese keyboards write such characters.
func fullWidth(t string) (wide, narrow string) {
	for wide, narrow := range map[string]string{"：": ":", "｛": "{", "｝": "}"} {
		if strings.HasPrefix(t, wide) {
			return wide, narrow
		}
	}
	return "", ""
}

// endsInWord reports whether the last character of t is a letter or a digit, as
// in order#{id}. There a '#' is text.
func endsInWord(t string) bool {
	r, _ := utf8.DecodeLastRuneInString(t)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// startsName reports whether t begins as a placeholder behind a '#' does, as in
// #{sku} or #sku.
func startsName(t string) bool {
	r, _ := utf8.DecodeRuneInString(t)
	return r == '{' || r == '_' || unicode.IsLetter(r)
}

// placeholderIn returns the name at the start of t that was meant as a
// placeholder, as in ${sku}, $sku or <sku>.
func placeholderIn(t string) string {
	return cmp.Or(nameIn(strings.TrimPrefix(t, "{")), "parameter")
}

// nameIn returns the name at the start of t, or "" if there is none.
func nameIn(t string) string {
	rest := strings.TrimLeftFunc(t, func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
	return strings.TrimSuffix(t, rest)
}

// isVerb reports whether t begins with a verb of fmt. A word that begins with a
// percent sign has more than one letter.
func isVerb(t string) bool {
	return len(t) > 1 && strings.IndexByte("sdvq", t[1]) >= 0 && nameIn(t[2:]) == ""
}

// parseSelector reads the text between two braces, at offset at.
func parseSelector(text string, at int) (selector, *problem) {
	if path, _, modified := strings.Cut(text, "|"); modified {
		return nil, problemAt(at+len(path), "modifiers such as %s are for routes: a parameter has the "+
			"spelling of its type",
			text[len(path):])
	}
	var p selector
	for name := range strings.SplitSeq(text, ".") {
		s := step{name: name, at: at}
		s.name, s.call = strings.CutSuffix(name, "()")
		if !token.IsIdentifier(s.name) || s.name == "_" {
			return nil, problemAt(at, "%q is not a parameter, field or method()", name)
		}
		p = append(p, s)
		at += len(name) + 1
	}
	if p[0].call {
		return nil, problemAt(p[0].at, "%q is a call, a placeholder starts with a parameter", p[0].name+"()")
	}
	return p, nil
}
