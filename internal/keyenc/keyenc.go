// Package keyenc joins the parts of a key so that different parts never give the same key. It is the one encoding behind
// guard.Key and keyfunc.Join.
package keyenc

import "strings"

// escaper makes ':' free to separate parts. '%' goes first in spirit: both are replaced in one pass.
var escaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Escape returns part with '%' and ':' escaped as %25 and %3A.
func Escape(part string) string { return escaper.Replace(part) }

// Join escapes the parts and puts ':' between them. It is injective for parts that are not empty; if one is, or if there
// are none, it returns "", which no guard accepts.
func Join(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if p == "" {
			return ""
		}
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(Escape(p))
	}
	return b.String()
}
