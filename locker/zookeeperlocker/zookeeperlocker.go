package zookeeperlocker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// store names this package in errors.
const store = "zookeeperlocker"

// Locker is a [locker.Locker] on ZooKeeper, for one guard. All methods but Open
// are safe for concurrent use.
//
// A Locker has about ten goroutines from Open on. From the first Acquire on it
// has about seventeen more, which wait for messages. All end with Close.
type Locker struct {
	*base

	rows *rows
}

// base has the methods of package locker, which guard calls.
type base = rowlocker.Locker

// New returns a Locker that keeps leases by conn. New sends nothing. The caller
// closes conn, after the Locker.
func New(conn *zk.Conn, opts ...Option) *Locker {
	r := &rows{servers: servers{settings: settings{root: "/guard", acl: zk.WorldACL(zk.PermAll)}, conn: conn}}
	r.notes, r.making = map[string]*note{}, make(chan struct{}, 1)
	for _, o := range opts {
		o(&r.settings)
	}
	return &Locker{rowlocker.New(r), r}
}

type settings struct {
	root string
	acl  []zk.ACL
}

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

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

// limits say how late leases end if their process has died, see the package.
var limits = locker.Limits{Late: locker.LookEvery, LateForOthers: 5 * sweepEvery}

// Check reports whether ZooKeeper can serve leases of ttl now. Check takes and
// releases a key that nobody uses, measures that, and reads the list of
// servers. Check leaves nothing behind but the nodes that all keys share.
//
// The error holds everything that is wrong, each as a [locker.Finding] with one
// of the names above.
func (l *Locker) Check(ctx context.Context, ttl time.Duration) error { return l.base.Check(ctx, ttl) }

// rows implement [rowlocker.Rows]: each row is a node. See layout.go for what
// stands in ZooKeeper.
type rows struct {
	servers
	memory
	inbox
}

var _ interface {
	rowlocker.Explaining
	rowlocker.Glancing
	rowlocker.Pulse
	rowlocker.Worker
} = (*rows)(nil)

// Traits tell what ZooKeeper can do. The version of a row is the id of the
// transaction that wrote it, because a node's own version begins anew with each
// node.
func (r *rows) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: store, Blind: true, Tickets: true, Limits: limits, Findings: findings,
		Grain:   verifiedFor,
		Workers: 2, Batch: 50, // more workers would send smaller batches
	}
}
