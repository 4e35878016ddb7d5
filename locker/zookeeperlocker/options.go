package zookeeperlocker

import (
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

type settings struct {
	root string
	acl  []zk.ACL
}

// WithPrefix sets the node under which all nodes of the Locker stand. Processes
// exclude each other if they have the same prefix. The Locker makes the node
// and those above it. The default is "/guard".
func WithPrefix(path string) Option { return func(s *settings) { s.root = path } }

// WithACL sets who may do what with the nodes that the Locker makes. All
// processes need all rights but admin. By default everybody has them.
func WithACL(acl ...zk.ACL) Option { return func(s *settings) { s.acl = acl } }

func (s *settings) check() error {
	for name := range strings.SplitSeq(strings.TrimPrefix(s.root, "/"), "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, isControl) || s.root[0] != '/' {
			return lockerkit.Invalid(store, "WithPrefix: want a path of ZooKeeper such as /guard")
		}
	}
	if len(s.acl) == 0 || slices.ContainsFunc(s.acl, func(a zk.ACL) bool { return a.Scheme == "" }) {
		return lockerkit.Invalid(store, "WithACL: nobody has rights")
	}
	return nil
}

func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
