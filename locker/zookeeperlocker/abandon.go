package zookeeperlocker

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/locker"
)

// Abandon takes c out of key and queue, in the background. It takes two
// requests or three.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	entry := ""
	if st, ok := c.State.(*state); ok {
		entry = st.Leave()
	}
	l.abandon(late, c.Key, c.Owner, entry)
}

// abandon leaves nothing of an owner id behind. Without rights it cannot.
func (l *Locker) abandon(late bool, key, owner, entry string) {
	l.lines.disown(key, owner)
	l.life.Abandon(late, func(ctx context.Context) bool {
		err := l.leave(ctx, key, owner, entry)
		return err == nil || lacksRights(err)
	})
}

// leave takes an owner id out of the queue. If it owns the key, or nobody does,
// the key goes to the first in the queue, and marks that have no owner go.
func (l *Locker) leave(ctx context.Context, key, owner, entry string) error {
	if entry != "" {
		if err := l.delete(ctx, entry); err != nil {
			return err
		}
	}
	if _, err := l.free(ctx, key, owner, nil); !errors.Is(err, locker.ErrLeaseLost) {
		return err
	}
	return nil
}
