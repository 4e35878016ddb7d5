package keyfunc

import (
	"fmt"
	"strings"
	"unicode"
)

// slip returns the problem if t begins with a placeholder in another language's
// syntax, and "" otherwise. In a template such a placeholder would be plain
// text, and so one lock for everybody.
func slip(t string) (problem string) {
	mark, name := "", ""
	switch {
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
