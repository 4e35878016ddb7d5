package redislocker

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// A GET alone costs a key that has a record half of a recall. So a locker
// remembers which keys had one lately. It may forget that at any time, or
// remember a key whose record has gone.

// noteRecorded remembers that key has a record.
func (l *Locker) noteRecorded(key string) {
	l.place(key).Store(&knownKey{key, l.keys(key), l.recordName(key)})
}

// read returns the record of a key that had one lately. It returns "" if a recall
// must follow. Only a recall can say whether a mark counts, and only it takes a
// claim out of the queue.
func (l *Locker) read(ctx context.Context, key string, t locker.Try) (record string, err error) {
	place := l.place(key)
	last := place.Load()
	if last == nil || last.key != key || last.record == nil || t.Queued || l.conn.Trip.Tight(ctx) {
		return "", nil
	}
	text, err := l.run(ctx, call{line: []any{"get", last.record}})[0].Text()
	switch {
	case err == nil && len(text) > locker.OwnerLen && !strings.HasPrefix(text, markSign):
		return text[locker.OwnerLen:], nil
	case err == nil, errors.Is(err, redis.Nil):
		place.CompareAndSwap(last, &knownKey{key: key, keys: last.keys})
		return "", nil
	}
	return "", l.tryError(err)
}
