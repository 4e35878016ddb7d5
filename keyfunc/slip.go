package keyfunc

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// slip returns the problem if t begins with a placeholder in another language's
// syntax, or with a full-width form of a character that has a meaning. It
// returns "" otherwise. In a template all that would be plain text, and so one
// lock for everybody, or a key that no other code makes. before is the template
// up to t.
func slip(before, t string) (problem string) {
	mark, name := "", ""
	if wide, narrow := fullWidth(t); wide != "" {
		return fmt.Sprintf("%q is text in a template: write %s", wide, narrow)
	}
	switch {
	case strings.HasPrefix(t, "#") && endsInWord(before): // as in order#{id}
	case strings.HasPrefix(t, "#{"):
		mark, name = "#{", nameIn(t[2:])
	case strings.HasPrefix(t, "#"):
		name = nameIn(t[1:])
		mark = "#" + name
	case strings.HasPrefix(t, "${"):
		mark, name = "${", nameIn(t[2:])
	case strings.HasPrefix(t, "$"):
		name = nameIn(t[1:])
		mark = "$" + name
	case strings.HasPrefix(t, "<") && strings.HasPrefix(t[1+len(nameIn(t[1:])):], ">"):
		name = nameIn(t[1:])
		mark = "<" + name + ">"
	case strings.HasPrefix(t, "/:"), strings.HasPrefix(t, "/*"):
		name = nameIn(t[2:])
		mark = t[1:2] + name
	case isVerb(t):
		return fmt.Sprintf("%q is text in a template: write {name}", t[:2])
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%q is text in a template: write {%s}", mark, name)
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

// endsInWord reports whether the last character of t is a letter or a digit.
func endsInWord(t string) bool {
	r, _ := utf8.DecodeLastRuneInString(t)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// nameIn returns the name that t begins with, or "" if there is none.
func nameIn(t string) string {
	for i, r := range t {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return t[:i]
		}
	}
	return t
}

// isVerb reports whether t begins with a verb of fmt. A word of more than one
// letter behind a percent sign is no verb.
func isVerb(t string) bool {
	return len(t) > 1 && t[0] == '%' && strings.IndexByte("sdvq", t[1]) >= 0 && nameIn(t[2:]) == ""
}
