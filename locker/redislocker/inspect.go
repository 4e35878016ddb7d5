package redislocker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// inspectCall is a run of inspect.lua.
func (s *server) inspectCall(key string) call {
	k := s.names.keys(key)
	return newCall(inspectScript, 4, k.lock, k.wait, k.crowd, s.names.record(key), locker.MaxListed)
}

// readInspected reads the answer of inspect.lua.
func (s *server) readInspected(key string, answer command) (locker.KeyState, error) {
	state := locker.KeyState{Key: key}
	parts, err := answer.Slice()
	if err == nil && len(parts) != 8 {
		err = errNoAnswer
	}
	if err != nil {
		return state, s.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	waiting, _ := parts[2].(int64)
	length, _ := parts[5].(int64)
	left, _ := parts[6].(int64)
	head, _ := parts[7].(string)
	state.Record = locker.RecordState{
		Size: int(length), Remaining: time.Duration(max(left, 0)) * time.Millisecond, Head: head,
	}
	if ttl != -2 {
		state.Held, state.Remaining = true, time.Duration(max(ttl, 0))*time.Millisecond
		if state.Owners, state.Limit = readClaims(parts[4]); state.Owners == nil {
			state.Owner = value[:min(len(value), locker.OwnerLen)]
			state.Holder, state.Lingers = readHolder(value), lingers(value)
		}
	}
	state.Waiting = int(waiting)
	state.Waiters, _ = readClaims(parts[3])
	return state, nil
}

// readClaims reads entries, and returns their claims and the lowest limit of
// them.
func readClaims(part any) (all []locker.Waiter, limit int) {
	entries, _ := part.([]any)
	for _, e := range entries {
		if text, _ := e.(string); len(text) > entryHead {
			value := text[entryHead:]
			all = append(all, locker.Waiter{
				Owner: value[:min(len(value), locker.OwnerLen)], Holder: readHolder(value),
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
func (s *server) listNode(ctx context.Context, node redis.Cmdable, yield func(locker.KeyState, error) bool) bool {
	for cursor := uint64(0); ; {
		names, next, err := node.Scan(ctx, cursor, s.names.pattern(), scanPage).Result()
		if err != nil {
			yield(locker.KeyState{}, s.tryError(err))
			return false
		}
		if !s.listPage(ctx, names, yield) {
			return false
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

// listPage inspects the keys of names. A lock also reports its queue, so a
// queue is reported only if its key is free.
func (s *server) listPage(ctx context.Context, names []string, yield func(locker.KeyState, error) bool) bool {
	var keys []string
	var queues []bool
	var calls []call
	for _, name := range names {
		if key, queue, ok := s.names.parse(name); ok {
			keys, queues = append(keys, key), append(queues, queue)
			calls = append(calls, s.inspectCall(key))
		}
	}
	if len(calls) == 0 {
		return true
	}
	for n, answer := range s.runCalls(ctx, calls...) {
		state, err := s.readInspected(keys[n], answer)
		switch {
		case err == nil && queues[n] == state.Held:
		case err == nil && !state.Held && state.Waiting == 0: // gone meanwhile
		case !yield(state, err):
			return false
		}
	}
	return true
}
