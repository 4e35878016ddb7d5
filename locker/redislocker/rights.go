package redislocker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// A right is tried by a command that changes nothing, on keys that nobody uses.
type right struct {
	name string
	line []any
}

// rights are the rights that can be tried like this, see the package comment.
// The rights of scripts are tried outside of a script, because the server
// checks the same.
func (l checker) rights(k keys) []right {
	rights := []right{
		{"+eval", []any{"eval", "return 1", 1, k.lock}},                    // some servers refuse scripts without keys
		{"+evalsha", []any{"evalsha", strings.Repeat("0", 40), 1, k.lock}}, // nobody's script
		{"+get", []any{"get", k.lock}},
		{"+getrange", []any{"getrange", k.lock, 0, 0}},
		{"+set", []any{"set", k.lock, "", "px", 1000, "xx"}},
		{"+del", []any{"del", k.lock}},
		{"+exists", []any{"exists", k.lock}},
		{"+pexpire", []any{"pexpire", k.lock, 1000}},
		{"+pttl", []any{"pttl", k.lock}},
		{"+time", []any{"time"}},
		{"+zadd", []any{"zadd", k.wait, "xx", 1, ""}},
		{"+zrem", []any{"zrem", k.wait, ""}},
		{"+zrange", []any{"zrange", k.wait, 0, 0}},
		{"+zscore", []any{"zscore", k.wait, ""}},
		{"+zcard", []any{"zcard", k.wait}},
		{"+ping", []any{"ping"}},
		{"+publish", []any{"publish", l.inbox.channel, "probe"}},
		{"+pubsub|numsub", []any{"pubsub", "numsub", l.inbox.channel}},
		{"+scan", []any{"scan", 0, "match", k.lock, "count", 1}},
	}
	if l.settings.replicas > 0 {
		rights = append(rights, right{"+wait", []any{"wait", 0, 1}})
	}
	return rights
}

// publishing is a script that publishes, as a release does. Some servers refuse
// that in scripts only.
const publishing = `return redis.pcall("publish", ARGV[1], "probe")`

// storing is a script for commands that store a key without a TTL. It tries the
// right to such a command and deletes the key again.
const storing = `local answer = redis.pcall(ARGV[1], KEYS[1], "") redis.call("del", KEYS[1]) return answer`

// checkRights finds all missing rights at once, so that an operator does not
// learn of them one at a time.
func (l checker) checkRights(ctx context.Context) error {
	k := l.names.keys(probeKey())
	missing, err := l.lacking(ctx, l.rights(k))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(missing, needed) {
		stores, err := l.lacking(ctx, []right{
			{"+msetnx", []any{"eval", storing, 1, k.lock, "msetnx"}},
			{"+mset", []any{"eval", storing, 1, k.lock, "mset"}},
			{"+publish", []any{"eval", publishing, 1, k.lock, l.inbox.channel}},
		})
		if err != nil {
			return err
		}
		missing = append(missing, stores...)
	}
	unheard, err := l.tryMessages(ctx, k)
	if l.missed(err, "+subscribe") != "" {
		missing = append(missing, l.missed(err, "+subscribe"))
	} else if err != nil {
		return l.tryError(err)
	}
	return errors.Join(unheard,
		lacks(missing, needed, FindingRights, locker.Refuse, "leases need them"),
		lacks(missing, forMessages, FindingMessages, locker.Warn,
			"in scripts too: without them those who wait are told late, or poll"),
		lacks(missing, forList, FindingList, locker.Warn, "Guard.List and guardctl ls need it"))
}

func forMessages(right string) bool {
	return right[0] == '&' || slices.Contains([]string{"+publish", "+subscribe", "+ping", "+pubsub|numsub"}, right)
}

func forList(right string) bool { return right == "+scan" }

func needed(right string) bool { return !forMessages(right) && !forList(right) }

// lacks is a finding about the missing rights of one kind. It is nil if there
// are none.
func lacks(missing []string, kind func(string) bool, name string, severity locker.Severity, why string) error {
	var of []string
	for _, m := range missing {
		if kind(m) && !slices.Contains(of, m) {
			of = append(of, m)
		}
	}
	if of == nil {
		return nil
	}
	return finding(name, severity, "the server refuses this user %s (%s): give it the rights that the documentation "+
		"of package redislocker lists",
		strings.Join(of, " "), why)
}

// lacking tries the rights and returns those that the server refuses. Its error
// is the reason why that could not be found out.
func (l checker) lacking(ctx context.Context, rights []right) (missing []string, err error) {
	tries := make([]command, len(rights))
	for i, r := range rights {
		tries[i] = redisconn.NewCommand(ctx, r.line...)
	}
	for i, answer := range l.conn.Send(ctx, tries...) {
		switch err := answer.Err(); {
		case err == nil, errors.Is(err, redis.Nil), unknownScript(answer):
		case l.missed(err, rights[i].name) != "":
			missing = append(missing, l.missed(err, rights[i].name))
		case forMessages(rights[i].name) && l.refused(err): // a proxy that does not pass it on
			missing = append(missing, rights[i].name)
		default:
			return nil, l.tryError(err)
		}
	}
	return missing, nil
}

// missed returns the missing right that err reports, or "" if err has another
// cause. tried is the right to the command that was tried.
func (l checker) missed(err error, tried string) string {
	switch code(err) { // "" for none
	case "NOPERM":
	case unknownCommand: // renamed by the owner or the provider of the server
		return tried
	default:
		return ""
	}
	switch text := err.Error(); {
	case !strings.Contains(text, "access"):
		return tried
	case strings.Contains(text, "channel"):
		return "&" + l.names.inbox("*")
	default:
		return "~" + l.settings.prefix + ":*"
	}
}

// subscribeLimit bounds the try to subscribe.
const subscribeLimit = 2 * time.Second

// counting is a script that asks how many hear a channel, as a release does. By
// itself the command may go to another server than a release.
const counting = `return redis.call("pubsub", "numsub", ARGV[1])[2]`

// tryMessages subscribes to a channel that nobody uses, on a connection of its
// own. It returns a finding if the server where releases go knows nothing of the
// subscription. In a cluster a server counts only those who subscribe there.
func (l checker) tryMessages(ctx context.Context, k keys) (unheard, err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Apart(subscribeLimit))
	defer cancel()
	channel := l.names.inbox(lockerkit.NewID())
	sub := l.conn.Subscribe(ctx, channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil || l.conn.Cluster() {
		return nil, err
	}
	count := redisconn.NewCommand(ctx, "eval", counting, 1, k.lock, channel)
	if n, err := l.conn.SendOne(ctx, count).Int(); err != nil || n > 0 {
		return nil, nil // a missing right is named by itself
	}
	return finding(FindingMessages, locker.Warn, "subscriptions are not with the server that has the keys, so those "+
		"who wait are not told, and poll: let SUBSCRIBE go where EVALSHA goes, past a proxy that sends it to "+
		"a replica"), nil
}
