package redisfence

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// Wrong returns a script whose check has other in place of old. It returns nil
// if the check does not contain old.
func Wrong(old, other, source string) *Script {
	if !strings.Contains(prologue, old) {
		return nil
	}
	return &Script{script: redis.NewScript(strings.Replace(prologue, old, other, 1) + source)}
}
