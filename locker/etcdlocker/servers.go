package etcdlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// servers are the members of etcd, of which one is in use at a time.
type servers struct {
	// dial makes the clients, of which the locker is then the owner; nil: they
	// are the caller's.
	dial    func() ([]*clientv3.Client, error)
	members []*clientv3.Client // New's first
	single  bool               // set by open: each client has one endpoint
	changed func()             // called when another member is in use

	member   atomic.Int32 // counts the changes of the member in use
	answered atomic.Int32 // member at the last answer of a server
	last     atomic.Int64 // when the last answer came, in ns

	reconnected atomic.Int64 // when doubt last made a client connect, in ns
}

// open makes the clients if the caller has made none.
func (s *servers) open() (err error) {
	if s.dial != nil {
		if s.members, err = s.dial(); err != nil {
			s.Close()
			return err
		}
	}
	if slices.Contains(s.members, nil) {
		return lockerkit.Invalid(store, "a client is nil")
	}
	s.single = !slices.ContainsFunc(s.members, func(c *clientv3.Client) bool { return len(c.Endpoints()) > 1 })
	return nil
}

// Close closes the clients that dial has made.
func (s *servers) Close() {
	if s.dial == nil {
		return
	}
	for _, c := range s.members {
		_ = c.Close()
	}
}

// client returns the client of the member in use.
func (s *servers) client() *clientv3.Client { return s.members[int(s.member.Load())%len(s.members)] }

// reconnectPause is the shortest time between two attempts to reach a server
// that cannot be reached.
const reconnectPause = time.Second

// fair is how long a member has at least to answer. A request whose caller gave
// it less says nothing about the member.
const fair = 200 * time.Millisecond

// doubt is told of each request that was sent by c and failed. doubt changes to
// the next member if that of c gave no answer, and sees to it that c connects
// again soon, because gRPC's own pause grows to two minutes.
func (s *servers) doubt(c *clientv3.Client, err error, sent time.Time) {
	if !unanswered(err) {
		s.heard()
	}
	hurried := errors.Is(err, context.DeadlineExceeded) && time.Since(sent) < fair
	if hurried || noLease(err) || refused(err) || errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now().UnixNano()
	if last := s.reconnected.Load(); now-last > int64(reconnectPause) && s.reconnected.CompareAndSwap(last, now) {
		c.ActiveConnection().ResetConnectBackoff()
	}
	n := s.member.Load()
	if len(s.members) > 1 && s.members[int(n)%len(s.members)] == c && s.member.CompareAndSwap(n, n+1) {
		s.changed() // else another call has done it
	}
}

// txn sends one transaction.
func (s *servers) txn(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(errUnsent, err)
	}
	c, sent := s.client(), time.Now()
	r, err := c.Txn(ctx).If(ifs...).Then(then...).Else(els...).Commit()
	if err != nil {
		s.doubt(c, err, sent)
		return nil, err
	}
	s.heard()
	return r, nil
}

// heard notes that the member in use has answered.
func (s *servers) heard() {
	s.answered.Store(s.member.Load())
	s.last.Store(time.Now().UnixNano())
}

// Unanswered implements [rowlocker.Explaining].
func (s *servers) Unanswered(since time.Time, err error) error {
	if s.last.Load() > since.UnixNano() {
		return fmt.Errorf("%w: etcdlocker: %w", locker.ErrUnavailable, err)
	}
	return s.tryError(err)
}

// tryError is the error that Acquire returns for err: ErrUnavailable, or etcd's
// refusal if a new try cannot help. If all members are silent, it is an
// ErrSilent too.
func (s *servers) tryError(err error) error {
	switch {
	case err == nil:
		return nil
	case refused(err):
		return fmt.Errorf("etcdlocker: %w", withAdvice(err))
	case silent(err) && s.allSilent():
		return fmt.Errorf("%w: %w: etcdlocker: %w", locker.ErrUnavailable, locker.ErrSilent, s.named(err))
	}
	return s.unclear(err)
}

// allSilent reports whether each member was tried since the last answer. With a
// client of several endpoints nobody knows which of them were.
func (s *servers) allSilent() bool {
	return s.single && (len(s.members) == 1 || int(s.member.Load()-s.answered.Load()) >= len(s.members))
}

// unclear is the error of a call whose outcome is not known. For a holder, a
// refusal leaves as much in doubt as silence does.
func (s *servers) unclear(err error) error {
	return fmt.Errorf("%w: etcdlocker: %w", locker.ErrUnavailable, s.named(err))
}

// named adds what to do about err. If no member gave an answer, it names all of
// them, because the address may be wrong.
func (s *servers) named(err error) error {
	if !unanswered(err) {
		return withAdvice(err)
	}
	var endpoints []string
	for _, c := range s.members {
		endpoints = append(endpoints, c.Endpoints()...)
	}
	return fmt.Errorf("no answer from %s: %w", strings.Join(endpoints, " "), err)
}

var errUnsent = fmt.Errorf("%w: it waited for its turn", locker.ErrUnsent)

// tooMuch are the answers of etcd to a request that is too large, and noRights
// those to a user who may not do what was asked. They stay until somebody
// changes something.
var (
	tooMuch  = []error{rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps}
	noRights = []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrRoleNotFound,
		rpctypes.ErrAuthFailed,
	}
)

func isOne(err error, of []error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// refused reports whether a new try cannot help.
func refused(err error) bool { return isOne(err, tooMuch) || lacksRights(err) }

func lacksRights(err error) bool { return isOne(err, noRights) }

func noLease(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// unanswered reports whether err is no answer of a server.
func unanswered(err error) bool {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) || errors.Is(err, errUnsent) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.Unavailable
}

// silent reports whether err says that a server gave no answer: nobody listens,
// or nothing came in time. A connection that breaks says nothing about the
// server. gRPC tells the two apart by their text alone.
func silent(err error) bool {
	return unanswered(err) &&
		(errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "connection refused"))
}

// withAdvice adds what to do about err.
func withAdvice(err error) error {
	switch {
	case lacksRights(err):
		return fmt.Errorf(
			"%w (give the client's user the rights that the documentation of package etcdlocker lists)", err)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w (start each member with --max-txn-ops=128, which is the default, or more)", err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("etcd answers, but is full and takes no writes: %w "+
			"(compact and defragment etcd, then disarm the alarm: etcdctl alarm disarm)", err)
	}
	return err
}
