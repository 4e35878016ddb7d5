package redislocker

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// A server whose scripts are not one step runs the commands of other clients
// between those of a release, which may then free or hand on a key twice.
const (
	stepTries = 3
	stepReads = 1000 // reads under way while a script runs

	// flagging raises a flag, works for less than 1 ms, and lowers the flag.
	flagging = `redis.call("set", KEYS[1], "up", "px", 5000)
for i = 1, 300 do redis.call("get", KEYS[1]) end
return redis.call("del", KEYS[1])`
)

// checkAtomicity finds a server whose scripts are not one step: somebody else
// sees a flag that a script raises and lowers.
func (l checker) checkAtomicity(ctx context.Context) error {
	if known := l.atomicity.Load(); known != nil {
		return *known // so that a readiness probe does not try it again and again
	}
	flag := l.names.lock(probeKey())
	watch, done, err := l.conn.OneConn(ctx, flag)
	if errors.Is(err, redisconn.ErrUnknownClient) {
		return nil // checkClient warns of it
	} else if err != nil {
		return unclear(err)
	}
	defer done()
	for range stepTries {
		seen := make(chan bool, 1)
		go func() { seen <- l.sees(ctx, watch, flag) }() // ends with its requests
		err := l.conn.SendOne(ctx, redisconn.NewCommand(ctx, eval, flagging, 1, flag)).Err()
		if <-seen {
			return finding(FindingScripts, locker.Refuse, "the server runs other commands between those of a "+
				"script, so a release may free a key twice: Garnet needs --lua-transaction-mode, and Dragonfly must "+
				"not have disable-atomicity")
		}
		if err != nil {
			return l.tryError(err)
		}
	}
	found := l.info(ctx, "server", func(info map[string]string, err error) error {
		switch {
		case err != nil && !l.refused(err):
			return unclear(err)
		case info["garnet_version"] != "":
			return finding(FindingScripts, locker.Warn, "the server is Garnet, whose scripts are one step only with "+
				"--lua-transaction-mode: the opposite was not seen, so see that it is set")
		}
		return nil
	})
	if !errors.Is(found, locker.ErrUnavailable) {
		l.atomicity.Store(&found)
	}
	return found
}

// sees reports whether one of many reads finds the flag raised.
func (l checker) sees(ctx context.Context, send redisconn.SendFunc, flag any) bool {
	reads := make([]command, stepReads)
	for i := range reads {
		reads[i] = redisconn.NewCommand(ctx, "exists", flag)
	}
	for _, answer := range send(ctx, reads...) {
		if n, err := answer.Int(); err == nil && n > 0 {
			return true
		}
	}
	return false
}
