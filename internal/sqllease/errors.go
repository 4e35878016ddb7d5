package sqllease

import (
	"fmt"

	"github.com/go-lockguard/guard/locker"
)

func (l *Locker) lost() error { return fmt.Errorf("%s: %w", l.table.Name, locker.ErrLeaseLost) }

// sorted returns an error of the driver as an error of package locker, or as
// one that says what to do.
func (l *Locker) sorted(err error) error {
	switch l.table.Judge(err) {
	case NoRight:
		return fmt.Errorf("%s: a right is missing: %w; %s", l.table.Name, err, l.rights())
	case NoTable:
		return fmt.Errorf("%s: the table %s is missing: run Migrate, or the statement of Schema: %w",
			l.table.Name, l.table.name, err)
	case Other:
		return fmt.Errorf("%s: %w", l.table.Name, err)
	case Unavailable, Again:
	}
	return fmt.Errorf("%s: %w: %w", l.table.Name, locker.ErrUnavailable, err)
}

// rights says which rights the Locker needs.
func (l *Locker) rights() string { return fmt.Sprintf(l.table.Rights, l.table.name) }
