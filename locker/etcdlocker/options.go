package etcdlocker

import clientv3 "go.etcd.io/etcd/client/v3"

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

type settings struct {
	prefix  string
	members []*clientv3.Client // New's first
}

// WithPrefix sets the beginning of all keys in etcd. Processes exclude each
// other if they have the same prefix. The default is "guard/".
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithMembers names clients of single members, each made with one endpoint. The
// Locker uses one of all its clients at a time, New's first. If that gives no
// answer, it goes on with the next.
//
// A client of several endpoints sends requests to all in turn. If a member
// hangs, it needs 10 s and more to find out, and until then some requests get
// no answer. A silent member is then not told from a silent etcd, so that calls
// do not learn early of an outage, and guard.WithFailOpen has no effect.
func WithMembers(clients ...*clientv3.Client) Option {
	return func(s *settings) { s.members = append(s.members, clients...) }
}
