package locker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// openers are the functions of RegisterDSN by scheme. dsnMu guards them, and is
// never held while one of them runs.
var (
	dsnMu   sync.Mutex
	openers = make(map[string]func(dsn string) (Locker, error))
)

// imports are the packages of this project that register schemes.
var imports = map[string]string{
	"redis":          "locker/redislocker",
	"rediss":         "locker/redislocker",
	"redis+sentinel": "locker/redislocker",
	"redis+cluster":  "locker/redislocker",
	"mem":            "locker/memlocker",
	"postgres":       "locker/postgreslocker",
	"postgresql":     "locker/postgreslocker",
	"mysql":          "locker/mysqllocker/mysqldsn",
	"sqlite":         "locker/sqlitelocker/sqlitedsn",
	"etcd":           "locker/etcdlocker",
	"etcds":          "locker/etcdlocker",
	"zk":             "locker/zookeeperlocker",
	"nats":           "locker/natslocker",
}

// RegisterDSN makes open the function by which [FromDSN] opens the addresses of
// a scheme, such as "redis". A store calls it from an init function. It panics
// if open is nil, or if the scheme is not valid or taken. It is safe for
// concurrent use.
//
// open gets the whole address. It sends nothing, and returns an
// ErrInvalidOption if the address is wrong. No part of the address may stand in
// its error, because a password may be anywhere. The Locker's Close also closes
// the client that open made. A Locker that was never opened holds no
// connection and no goroutine.
func RegisterDSN(scheme string, open func(dsn string) (Locker, error)) {
	if open == nil || !isScheme(scheme) {
		panic(fmt.Sprintf("locker: RegisterDSN of %q: the function is nil, or this is no scheme in lower case", scheme))
	}
	dsnMu.Lock()
	defer dsnMu.Unlock()
	if openers[scheme] != nil {
		panic(fmt.Sprintf("locker: RegisterDSN of %q: registered before", scheme))
	}
	openers[scheme] = open
}

// FromDSN returns a locker for an address such as "redis://localhost:6379". The
// scheme, up to the first colon, says which store it is. The package of that
// store must be imported, if only for its side effect:
//
//	import _ "github.com/go-lockguard/guard/locker/redislocker"
//
// The documentation of that package has the rest of the address. The locker
// owns its client, and Close closes that too.
//
// FromDSN sends nothing. It returns an ErrInvalidOption if the address is wrong
// or no package that was imported knows its scheme. The error shows nothing of
// the address but the scheme. FromDSN is safe for concurrent use.
func FromDSN(dsn string) (Locker, error) {
	scheme, _, ok := strings.Cut(dsn, ":")
	scheme = strings.ToLower(scheme)
	if !ok || !isScheme(scheme) {
		return nil, fmt.Errorf("%w: the address has no scheme, such as redis:// in redis://localhost:6379",
			ErrInvalidOption)
	}
	dsnMu.Lock()
	open := openers[scheme]
	dsnMu.Unlock()
	if open == nil {
		return nil, unknownScheme(scheme)
	}
	l, err := open(dsn)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, ErrInvalidOption):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrInvalidOption, err)
}

// unknownScheme names the import that is missing. A scheme that no store of
// this project has is not shown, because it may be a part of a password.
func unknownScheme(scheme string) error {
	if pkg, ok := imports[scheme]; ok {
		return fmt.Errorf(`%w: nobody knows the scheme %q: import _ "github.com/go-lockguard/guard/%s"`,
			ErrInvalidOption, scheme, pkg)
	}
	return fmt.Errorf("%w: nobody knows the scheme of the address: import the package of its store", ErrInvalidOption)
}

// isScheme reports whether s is a scheme of a URL in lower case.
func isScheme(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", r)) {
			return false
		}
	}
	return s != ""
}
