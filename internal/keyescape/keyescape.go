// Package keyescape joins the parts of a key so that different parts never give
// the same key. It is the one encoding behind guard.Key and keyfunc.Join.
package keyescape

// Append appends part to key and escapes '%' and ':' as %25 and %3A. So the
// caller can separate parts with ':'. Keys are injective as long as no part is
// empty.
func Append(key []byte, part string) []byte {
	for i := range len(part) {
		switch part[i] {
		case '%':
			key = append(key, "%25"...)
		case ':':
			key = append(key, "%3A"...)
		default:
			key = append(key, part[i])
		}
	}
	return key
}
