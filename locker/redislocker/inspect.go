package redislocker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// An inspector reads the keys of a server for operators.
type inspector struct{ *server }

func (i inspector) inspect(ctx context.Context, key string) (locker.KeyState, error) {
	return i.read(key, i.run(ctx, i.call(key))[0])
}

func (i inspector) call(key string) call {
	k := i.names.keys(key)
	return newCall(inspectScript, 4, k.lock, k.wait, k.crowd, i.names.record(key), locker.MaxListed)
}

// read reads the answer of inspect.lua.
func (i inspector) read(key string, answer command) (locker.KeyState, error) {
	s := locker.KeyState{Key: key}
	parts, err := answer.Slice()
	if err == nil && len(parts) != 8 {
		err = errNoAnswer
	}
	if err != nil {
		return s, i.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	waiting, _ := parts[2].(int64)
	length, _ := parts[5].(int64)
	left, _ := parts[6].(int64)
	head, _ := parts[7].(string)
	s.Record = locker.RecordState{
		Size: int(length), Remaining: time.Duration(max(left, 0)) * time.Millisecond, Head: head,
	}
	if ttl != -2 {
		s.Held, s.Remaining = true, time.Duration(max(ttl, 0))*time.Millisecond
		if s.Owners, s.Limit = claims(parts[4]); s.Owners == nil {
			s.Owner, s.Holder, s.Lingers = value[:min(len(value), locker.OwnerLen)], holder(value), lingers(value)
		}
	}
	s.Waiting = int(waiting)
	s.Waiters, _ = claims(parts[3])
	return s, nil
}

// claims reads entries, and returns their claims and the lowest limit of them.
func claims(part any) (all []locker.Waiter, limit int) {
	entries, _ := part.([]any)
	for _, e := range entries {
		if text, _ := e.(string); len(text) > entryHead {
			value := text[entryHead:]
			all = append(all, locker.Waiter{
				Owner: value[:min(len(value), locker.OwnerLen)], Holder: holder(value),
			})
			if n := limitOf(text); limit == 0 || n < limit {
				limit = n
			}
		}
	}
	return all, limit
}

const scanPage = 500 // how many of the server's keys one SCAN looks at

// listNode lists the keys of node, and reports whether the list goes on.
func (i inspector) listNode(ctx context.Context, node redis.Cmdable, yield func(locker.KeyState, error) bool) bool {
	for cursor := uint64(0); ; {
		names, next, err := node.Scan(ctx, cursor, i.names.pattern(), scanPage).Result()
		if err != nil {
			yield(locker.KeyState{}, i.tryError(err))
			return false
		}
		if !i.listPage(ctx, names, yield) {
			return false
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

// listPage inspects the keys of names. A lock also reports its queue, so a
// queue is reported only if its key is free.
func (i inspector) listPage(ctx context.Context, names []string, yield func(locker.KeyState, error) bool) bool {
	var keys []string
	var queues []bool
	var calls []call
	for _, name := range names {
		if key, queue, ok := i.names.parse(name); ok {
			keys, queues = append(keys, key), append(queues, queue)
			calls = append(calls, i.call(key))
		}
	}
	if len(calls) == 0 {
		return true
	}
	for n, answer := range i.run(ctx, calls...) {
		s, err := i.read(keys[n], answer)
		switch {
		case err == nil && queues[n] == s.Held:
		case err == nil && !s.Held && s.Waiting == 0: // gone meanwhile
		case !yield(s, err):
			return false
		}
	}
	return true
}
