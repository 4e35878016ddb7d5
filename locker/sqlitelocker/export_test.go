package sqlitelocker

import (
	"context"

	"github.com/go-lockguard/guard/internal/sqllease"
)

func (l *Locker) Sweep(ctx context.Context) (more bool, err error) {
	return sqllease.Sweep(ctx, l.base)
}
