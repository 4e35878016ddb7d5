package zookeeperlocker

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker"
)

var (
	errNotOwner = fmt.Errorf("%w: the key is not ours any more", locker.ErrLeaseLost)
	errChanging = errors.New("the key changed hands too often meanwhile")
	errUnsent   = fmt.Errorf("%w: there is no session", locker.ErrUnsent)
	errStrange  = errors.New("an entry of the queue is not ours")
)

// refused reports whether err says that a comparison failed and nothing was
// changed.
func refused(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion)
}

// lacksRights reports whether the user may not do what was asked.
func lacksRights(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL)
}

// tryError is the error that Acquire returns for err. It is ErrUnavailable, or
// a refusal of ZooKeeper if a new try cannot help.
func tryError(err error) error {
	if lacksRights(err) {
		return fmt.Errorf("zookeeperlocker: %w", withAdvice(err))
	}
	return unclear(err)
}

// unclear is the error of a call whose outcome is not known. For a holder, a
// refusal leaves as much in doubt as silence does.
func unclear(err error) error {
	return fmt.Errorf("%w: zookeeperlocker: %w", locker.ErrUnavailable, withAdvice(err))
}

// withAdvice adds what to do about err.
func withAdvice(err error) error {
	if lacksRights(err) {
		return fmt.Errorf(
			"%w (log in by AddAuth, and see the rights in the documentation of package zookeeperlocker)", err)
	}
	return err
}
