package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
)

// store is the guarded resource, a [contest.Store]. It is a server without
// faults.
type store struct{ rdb *redis.Client }

// openStore returns a store that sends nothing twice and is patient. A worker
// that is stopped while its write is on the way has written once.
func openStore(addr string) *store {
	return &store{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 32, MaxRetries: -1, ReadTimeout: time.Minute})}
}

func (s *store) close() error { return s.rdb.Close() }

var readScript = redis.NewScript(`
-- KEYS: fenced counter, unfenced counter. ARGV: token, "0" for none.
-- Returns whether the fence lets it in, both counters.
local token = tonumber(ARGV[1])
local most = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if token > 0 and token < most then return {0, 0, 0} end
if token > most then redis.call('HSET', KEYS[1], 'token', ARGV[1]) end
return {1, tonumber(redis.call('HGET', KEYS[1], 'value') or '0'), tonumber(redis.call('GET', KEYS[2]) or '0')}`)

var writeScript = redis.NewScript(`
-- KEYS: fenced counter, unfenced counter, log. ARGV: token, id, what was read of both, whether to write to both ("1").
-- Returns whether the fence let it in.
local token = tonumber(ARGV[1])
local most = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if ARGV[6] == '1' then
  redis.call('SET', KEYS[2], ARGV[4] + 1)
  redis.call('RPUSH', KEYS[3], 'u ' .. ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[4])
end
if ARGV[5] ~= '1' then return 1 end
if token < most then
  redis.call('RPUSH', KEYS[3], 'r ' .. ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3])
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[3] + 1)
redis.call('RPUSH', KEYS[3], 'f ' .. ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3])
return 1`)

func storeKeys(key int) []string {
	return []string{fmt.Sprint("fenced:", key), fmt.Sprint("unfenced:", key), fmt.Sprint("log:", key)}
}

// Read implements [contest.Store].
func (s *store) Read(ctx context.Context, key int, token uint64) (r contest.Reading, ok bool, err error) {
	v, err := readScript.Run(ctx, s.rdb, storeKeys(key)[:2], strconv.FormatUint(token, 10)).Int64Slice()
	if err != nil || len(v) != 3 {
		return r, false, err
	}
	return contest.Reading{Fenced: v[1], Unfenced: v[2]}, v[0] == 1, nil
}

// Write implements [contest.Store].
func (s *store) Write(ctx context.Context, key int, token uint64, id string, r contest.Reading,
	trusted bool,
) (ok bool, err error) {
	n, err := writeScript.Run(ctx, s.rdb, storeKeys(key), strconv.FormatUint(token, 10), id,
		r.Fenced, r.Unfenced, flag01(token > 0), flag01(trusted)).Int()
	return n == 1, err
}

func flag01(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// log returns the writes to a key.
func (s *store) log(ctx context.Context, key int) (entries []judge.Entry, err error) {
	const page = 10_000
	for from := int64(0); ; from += page {
		lines, err := s.rdb.LRange(ctx, storeKeys(key)[2], from, from+page-1).Result()
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			f := strings.Fields(line)
			if len(f) != 4 {
				return nil, fmt.Errorf("a line of the store's log is %q", line)
			}
			token, _ := strconv.ParseUint(f[2], 10, 64)
			base, _ := strconv.ParseInt(f[3], 10, 64)
			entries = append(entries, judge.Entry{Kind: f[0][0], ID: f[1], Token: token, Base: base})
		}
		if len(lines) < page {
			return entries, nil
		}
	}
}
