package sqllease

import (
	"errors"
	"fmt"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func (l *Locker) lost() error { return fmt.Errorf("%s: %w", l.table.Name, locker.ErrLeaseLost) }

// errReadOnly is the error of a read from a server that takes no writes.
var errReadOnly = errors.New("the server is read-only")

// verdict sorts an error of a statement.
func (t *table) verdict(err error) Verdict {
	if errors.Is(err, errReadOnly) {
		return ReadOnly
	}
	return t.Judge(err)
}

// sorted returns an error of a statement as an error of package locker, or as
// one that says what to do.
func (l *Locker) sorted(err error) error {
	switch l.table.verdict(err) {
	case NoRight, NoTable, Other:
		return fmt.Errorf("%s: %w%s", l.table.Name, err, l.table.advice(err))
	case Unavailable, Again, ReadOnly:
	}
	return fmt.Errorf("%s: %w: %w%s", l.table.Name, locker.ErrUnavailable, err, l.table.advice(err))
}

// advice says what to do about an error of a statement, behind ": ".
func (t *table) advice(err error) string {
	text := ""
	if t.Advice != nil {
		text = t.Advice(err)
	}
	if text == "" {
		switch t.verdict(err) {
		case NoRight:
			text = "a right is missing: " + fmt.Sprintf(t.Rights, t.name)
		case NoTable:
			text = "the table " + t.name + " is missing: run Migrate, or the statement of Schema"
		case ReadOnly:
			text = lockerkit.ReadOnly
		case Unavailable, Again, Other:
			return ""
		}
	}
	return ": " + text
}
