package redislocker

import (
	"github.com/go-lockguard/guard/internal/redisdsn"
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

// fromDSN serves [locker.FromDSN].
func fromDSN(dsn string) (locker.Locker, error) {
	o, ok := redisdsn.Parse(dsn)
	if !ok {
		return nil, errDSN
	}
	if o.Sentinel != nil {
		return New(nil, WithSentinel(o.Sentinel)), nil
	}
	rdb := o.Client()
	_ = rdb.Close() // a client has goroutines; Open makes another of the options of this one
	return New(rdb), nil
}
