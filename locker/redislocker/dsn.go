package redislocker

import (
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis+sentinel", "redis+cluster"} {
		locker.RegisterDSN(scheme, fromDSN)
	}
}

// errDSN is the error of every wrong address. It shows no part of it, because
// any part may belong to a password.
var errDSN = invalid("the address is wrong: want redis://[user:password@]host:port/db, rediss:// for TLS, " +
	"redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port; " +
	"in users and passwords, / ? # @ are written %%2F %%3F %%23 %%40")

// fromDSN serves [locker.FromDSN]. The parameters behind a '?' are those of
// go-redis. For sentinels, user and password in front of the hosts are the
// sentinels' own, and the parameters username and password are the servers'.
func fromDSN(dsn string) (locker.Locker, error) {
	scheme, left, _ := strings.Cut(dsn, "://")
	u, err := dsnURL(left)
	if err != nil {
		return nil, errDSN
	}
	switch u.Scheme = "redis"; strings.ToLower(scheme) {
	case "redis+sentinel":
		return sentinelDSN(u)
	case "redis+cluster":
		if u.Path != "" && u.Path != "/" {
			return nil, errDSN
		}
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, errDSN
		}
		return optionsOf(redis.NewClusterClient(o)), nil
	case "rediss":
		u.Scheme = "rediss"
	}
	o, err := redis.ParseURL(u.String())
	if err != nil || u.Query().Has("addr") {
		return nil, errDSN
	}
	return optionsOf(redis.NewClient(o)), nil
}

// sentinelDSN has no client to own: [WithSentinel] makes it.
func sentinelDSN(u *url.URL) (locker.Locker, error) {
	master := strings.TrimPrefix(u.Path, "/")
	if master == "" {
		return nil, errDSN
	}
	q := u.Query()
	q.Set("master_name", master)
	u.Path, u.RawPath, u.RawQuery = "", "", q.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, errDSN
	}
	return New(nil, WithSentinel(o)), nil
}

// dsnURL reads an address from behind its scheme. Hosts behind the first become
// parameters named addr, as go-redis wants them.
func dsnURL(left string) (*url.URL, error) {
	end := strings.IndexAny(left, "/?#")
	if end < 0 {
		end = len(left)
	}
	if strings.Contains(left[end:], "@") { // most likely a password that is not escaped
		return nil, errDSN
	}
	user := left[:strings.LastIndex(left[:end], "@")+1]
	hosts := strings.Split(left[len(user):end], ",")
	u, err := url.Parse("redis://" + user + hosts[0] + left[end:])
	if err != nil {
		return nil, errDSN
	}
	q := u.Query()
	for _, host := range hosts[1:] {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return nil, errDSN
		}
		q.Add("addr", host)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// optionsOf returns a locker with the options of rdb. Open makes a client of
// them. rdb itself is closed, because a client has goroutines.
func optionsOf(rdb redis.UniversalClient) *Locker {
	_ = rdb.Close()
	return New(rdb)
}
