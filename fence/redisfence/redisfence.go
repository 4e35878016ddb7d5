// Package redisfence refuses late writes to Redis. Package fence explains
// fencing and what to get right.
//
//	var sell = redisfence.NewScript(`
//		redis.call('RPUSH', KEYS[2], ARGV[1])
//		return redis.call('DECR', KEYS[1])`)
//
//	at := redisfence.For("{lamp}:stock")
//	left, err := sell.Run(ctx, rdb, at, token, []string{"{lamp}:stock", "{lamp}:orders"}, order).Int()
//	if errors.Is(err, fence.ErrLateWrite) {
//		...
//	}
//
// A client may repeat a request without an answer. go-redis does so up to three
// times by default. The script then runs again, because the fence lets the same
// token pass. Write scripts that may run twice, or set MaxRetries of the client
// to -1.
//
// In a cluster all keys of a script are in one slot, and the fence must be in
// it too. See [For]. Redis replicates without waiting, so a failover can lose
// the last writes and the fence with them.
package redisfence

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
)

//go:embed fence.lua
var source string

// prologue is source on one line. It takes no line of its own, so an error in a
// caller's script names the line of that script.
var prologue = func() string {
	var code []string
	for line := range strings.Lines(source) {
		if !strings.HasPrefix(line, "--") {
			code = append(code, strings.TrimSpace(line))
		}
	}
	return strings.Join(code, " ") + " "
}()

// Fence is the place of the highest token that has written to some data.
type Fence struct {
	Key string // a key of its own, in the slot of the data

	// Life is how long the token is kept after its last use. 0 means forever.
	// Life must be at least as long as the data lives, and at least as long as a
	// late writer may take to come.
	Life time.Duration
}

// For returns a fence in the slot of key, which is kept forever. Its key is
// {key}:fence, or key:fence if key has a hash tag. No such name exists for a
// key with braces that are no hash tag, as in "a}b". The fence then has no key,
// and every use of it is refused.
func For(key string) Fence {
	open := strings.IndexByte(key, '{')
	end := strings.IndexByte(key[open+1:], '}') // behind the first '{', or anywhere if there is none
	switch {
	case key == "":
		return Fence{}
	case open >= 0 && end > 0:
		return Fence{Key: key + ":fence"}
	case strings.ContainsRune(key, '}'):
		return Fence{}
	}
	return Fence{Key: "{" + key + "}:fence"}
}

func (f Fence) check(token uint64) error {
	switch {
	case f.Key == "":
		return fmt.Errorf("%w: the fence has no key: give it one in the slot of the data", guard.ErrInvalidOption)
	case f.Life < 0 || f.Life%time.Millisecond != 0:
		return fmt.Errorf("%w: the life of a fence is %v, want whole milliseconds, or 0",
			guard.ErrInvalidOption, f.Life)
	}
	return fence.CheckToken(token)
}

// Script is a Lua script that runs only if no higher token was seen. It is safe
// for concurrent use.
type Script struct{ script *redis.Script }

// NewScript returns the script with the given source. Make each script once.
// The source is the same as for redis.NewScript, but must not have a shebang
// line.
func NewScript(source string) *Script {
	return &Script{script: redis.NewScript(prologue + source)}
}

// Run runs the script if no higher token was seen at f, and records the token
// there. It sends one request, or two if the server does not know the script
// yet. rdb must not be a pipeline, because Run needs the answer at once.
//
// The error Is [fence.ErrLateWrite] if the fence refused the token. It Is
// guard.ErrInvalidOption for a fence or token that is not valid. Any other
// error comes from the client or the script.
func (s *Script) Run(ctx context.Context, rdb redis.Scripter, f Fence, token uint64, keys []string,
	args ...any,
) *redis.Cmd {
	if err := f.check(token); err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	keys = append(append(make([]string, 0, len(keys)+1), keys...), f.Key)
	args = append(append(make([]any, 0, len(args)+2), args...), strconv.FormatUint(token, 10), f.Life.Milliseconds())
	cmd := s.script.Run(ctx, rdb, keys, args...)
	if newest, late := newest(cmd.Err()); late {
		cmd.SetErr(&fence.LateWriteError{Token: token, Newest: newest})
	}
	return cmd
}

// newest reads the highest token from the answer to a late write.
func newest(err error) (token uint64, late bool) {
	if !redis.HasErrorPrefix(err, "LATEWRITE") {
		return 0, false
	}
	_, digits, _ := strings.Cut(err.Error(), " ")
	token, err = strconv.ParseUint(digits, 10, 64)
	return token, err == nil
}

var (
	get = NewScript(`return redis.call('GET', KEYS[1])`)
	set = NewScript(`
		if ARGV[2] == '0' then
			return redis.call('SET', KEYS[1], ARGV[1])
		end
		return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
)

// Get reads key. From then on nobody with a lower token can write it through f.
// If a later Set depends on a value, read the value with Get. The error Is
// redis.Nil if there is no such key. The other errors are those of
// [Script.Run].
func Get(ctx context.Context, rdb redis.Scripter, f Fence, token uint64, key string) (string, error) {
	return get.Run(ctx, rdb, f, token, []string{key}).Text()
}

// Set writes value at key, to live for ttl. A ttl of 0 means forever. Set
// refuses a fence that does not live as long, with guard.ErrInvalidOption. The
// other errors are those of [Script.Run].
func Set(ctx context.Context, rdb redis.Scripter, f Fence, token uint64, key string, value any,
	ttl time.Duration,
) error {
	if ttl < 0 || ttl%time.Millisecond != 0 || (f.Life != 0 && (ttl == 0 || f.Life < ttl)) {
		return fmt.Errorf("%w: a TTL of %v, want whole milliseconds and at most the %v that the fence lives",
			guard.ErrInvalidOption, ttl, f.Life)
	}
	return set.Run(ctx, rdb, f, token, []string{key}, value, ttl.Milliseconds()).Err()
}
