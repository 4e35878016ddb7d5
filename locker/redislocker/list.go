package redislocker

import (
	"context"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

const scanPage = 500 // how many of the server's keys one SCAN looks at

// List goes through the keys of every primary with SCAN, a page at a time. It
// inspects each lock and each queue under the prefix. A page takes two round
// trips. Keys under names of their own are not listed, see [WithKeyNames].
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.gate.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.gate.Leave()
		nodes, err := l.conn.Primaries(ctx)
		if err != nil {
			yield(locker.KeyState{}, l.tryError(err))
			return
		}
		for _, node := range nodes {
			if !l.listNode(ctx, node, yield) {
				return
			}
		}
	}
}

// listNode lists the keys of node, and reports whether the list goes on.
func (l *Locker) listNode(ctx context.Context, node redis.Cmdable, yield func(locker.KeyState, error) bool) bool {
	for cursor := uint64(0); ; {
		names, next, err := node.Scan(ctx, cursor, l.pattern(), scanPage).Result()
		if err != nil {
			yield(locker.KeyState{}, l.tryError(err))
			return false
		}
		if !l.listPage(ctx, names, yield) {
			return false
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

// listPage inspects the keys of names. A lock also reports its queue, so a
// queue is reported only if its key is free.
func (l *Locker) listPage(ctx context.Context, names []string, yield func(locker.KeyState, error) bool) bool {
	var keys []string
	var queues []bool
	var calls []call
	for _, name := range names {
		if key, queue, ok := l.parseName(name); ok {
			keys, queues = append(keys, key), append(queues, queue)
			calls = append(calls, l.inspectCall(key))
		}
	}
	if len(calls) == 0 {
		return true
	}
	for i, answer := range l.run(ctx, calls...) {
		s, err := l.inspected(keys[i], answer)
		switch {
		case err == nil && queues[i] == s.Held:
		case err == nil && !s.Held && s.Waiting == 0: // gone meanwhile
		case !yield(s, err):
			return false
		}
	}
	return true
}

// parseName returns the key of a name in Redis. ok is false unless the name is
// that of a lock or a queue.
func (l *Locker) parseName(name string) (key string, queue, ok bool) {
	name, ok = strings.CutPrefix(name, l.settings.prefix+":{")
	if !ok {
		return "", false, false
	}
	key, rest, ok := strings.Cut(name, "}")
	if !ok || strings.HasPrefix(key, probeMark) || rest != "" && rest != waitSuffix {
		return "", false, false
	}
	return key, rest == waitSuffix, true
}

// pattern is the pattern of names for SCAN.
func (l *Locker) pattern() string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`).Replace(l.settings.prefix) + ":{*"
}
