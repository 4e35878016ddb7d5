package etcdlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard/locker"
)

var (
	errNotOwner = fmt.Errorf("%w: the key is not ours any more", locker.ErrLeaseLost)
	errChanging = errors.New("the key changed hands too often meanwhile")
	errCrowd    = errors.New("the next owners of the key may be several")
	errUnsent   = fmt.Errorf("%w: it waited for its turn", locker.ErrUnsent)
)

// refusals are the answers of etcd that stay until somebody changes something.
var refusals = []error{
	rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrRoleNotFound,
	rpctypes.ErrAuthFailed, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps,
}

// refused reports whether a new try cannot help.
func refused(err error) bool {
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// lacksRights reports whether the user may not do what was asked.
func lacksRights(err error) bool { return refused(err) && !tooMuch(err) }

// tooMuch reports whether the request was larger than the server takes.
func tooMuch(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) || errors.Is(err, rpctypes.ErrTooManyOps)
}

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
