// Package redisdsn reads the addresses of Redis that locker.FromDSN takes, for
// those who need a client of their own at the same place.
package redisdsn

import (
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Options say how to reach a Redis: one of them is set.
type Options struct {
	Single   *redis.Options
	Sentinel *redis.FailoverOptions
	Cluster  *redis.ClusterOptions
}

// Parse reads redis://, redis+sentinel:// or redis+cluster://; rediss is with
// TLS. The parameters behind a '?' are those of go-redis. For sentinels, user
// and password in front of the hosts are the sentinels' own, and the parameters
// username and password are the servers'. What is wrong with an address Parse
// does not say, because any part may belong to a password.
func Parse(dsn string) (o Options, ok bool) {
	scheme, rest, _ := strings.Cut(dsn, "://")
	plain, kind, _ := strings.Cut(strings.ToLower(scheme), "+")
	u, ok := address(rest)
	if !ok || plain != "redis" && plain != "rediss" {
		return Options{}, false
	}
	u.Scheme = plain
	path := strings.TrimPrefix(u.Path, "/")
	var err error
	switch {
	case kind == "" && !u.Query().Has("addr"):
		o.Single, err = redis.ParseURL(u.String())
	case kind == "cluster" && path == "":
		o.Cluster, err = redis.ParseClusterURL(u.String())
	case kind == "sentinel" && path != "":
		q := u.Query()
		q.Set("master_name", path)
		u.Path, u.RawPath, u.RawQuery = "", "", q.Encode()
		o.Sentinel, err = redis.ParseFailoverURL(u.String())
	default:
		return Options{}, false
	}
	return o, err == nil
}

// address reads an address from behind its scheme. Hosts behind the first
// become parameters named addr, as go-redis wants them.
func address(rest string) (u *url.URL, ok bool) {
	end := strings.IndexAny(rest+"/", "/?#")
	if strings.Contains(rest[end:], "@") { // most likely a password that is not escaped
		return nil, false
	}
	user := rest[:strings.LastIndex(rest[:end], "@")+1]
	hosts := strings.Split(rest[len(user):end], ",")
	u, err := url.Parse("redis://" + user + hosts[0] + rest[end:])
	if err != nil {
		return nil, false
	}
	q := u.Query()
	for _, host := range hosts[1:] {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return nil, false
		}
		q.Add("addr", host)
	}
	u.RawQuery = q.Encode()
	return u, true
}

// Client returns a client, which sends nothing by itself.
func (o Options) Client() redis.UniversalClient {
	switch {
	case o.Sentinel != nil:
		return redis.NewFailoverClient(o.Sentinel)
	case o.Cluster != nil:
		return redis.NewClusterClient(o.Cluster)
	}
	return redis.NewClient(o.Single)
}
