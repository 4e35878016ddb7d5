package redislocker

import (
	"errors"
	"strings"

	"github.com/go-lockguard/guard/locker"
)

// maxTold is the length of the longest record that messages carry. Processes
// ask for a longer one.
const maxTold = 4 << 10

// markSign stands in front of a mark. No owner id begins with it.
const markSign = "*"

// keptBefore is the answer of keep.lua for a record that is there already.
const keptBefore = 2

// errForeignRecord is the error of a record that no guard has kept.
var errForeignRecord = errors.New("redislocker: something else has written the record of this key: Forget it, or " +
	"choose another prefix with WithPrefix")

// recordAnswer is the answer for a record. If it has made way for a mark, the
// next try finds that out.
func recordAnswer(text string, queued bool) (locker.Answer, error) {
	switch {
	case strings.HasPrefix(text, markSign):
		return locker.Answer{Queued: queued}, unclear(errNoAnswer)
	case len(text) <= locker.OwnerLen:
		return locker.Answer{Queued: queued}, errForeignRecord
	}
	return locker.Answer{Record: text[locker.OwnerLen:]}, nil
}

// readKept reads the answer of keep.lua.
func readKept(answer command) (locker.Released, error) {
	if n, ok := answer.Val().(int64); ok && answer.Err() == nil && n == keptBefore {
		return locker.Released{}, nil
	}
	return readFreed(answer)
}

// readBegun reads the answer of begin.lua.
func readBegun(answer command) (record string, err error) {
	if answer.Err() != nil {
		return "", leaseError(answer.Err())
	}
	switch v := answer.Val().(type) {
	case int64:
		if v == 1 {
			return "", nil
		}
		return "", errNotOwner
	case string:
		if v = strings.TrimPrefix(v, markSign); len(v) > locker.OwnerLen {
			return v[locker.OwnerLen:], nil
		}
		return "", unclear(errForeignRecord)
	}
	return "", unclear(errNoAnswer)
}

// readRecorded reads a recorded message behind its word.
func readRecorded(text string) (key, owner, value string, ok bool) {
	owner, left, _ := strings.Cut(text, " ")
	key, value, ok = strings.Cut(left, "\n") // a key has no control bytes
	return key, owner, value, ok && len(owner) == locker.OwnerLen
}
