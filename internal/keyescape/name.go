package keyescape

import "strings"

const hashMark = "%sha256:"

// IsHash reports whether name is what Plain returns for a key that is too long
// to be kept. No key that guard.Key makes looks like one.
func IsHash(name string) bool {
	return len(name) == len(hashMark)+43 && strings.HasPrefix(name, hashMark)
}

// Key returns the key whose name by Plain is name. ok is false if name is a
// hash, or no name that Plain returns.
func Key(name string) (key string, ok bool) {
	if strings.IndexByte(name, '%') < 0 {
		return name, true
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b = append(b, name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		hi, lo := strings.IndexByte(digits, name[i+1]), strings.IndexByte(digits, name[i+2])
		if hi < 0 || lo < 0 || !special(byte(hi<<4|lo)) {
			return "", false
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), true
}
