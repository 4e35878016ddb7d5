package postgreslocker

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Swap sends the changes of one row, or of a ticket, in one request, which has
// a statement for each. If there are several, a row that somebody else has
// locked is left alone, and another request waits for it. The changes of
// several rows have a request each.
//
// What has refused a change is read behind it, by a request for all of them.
func (r *rows) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	sorted := slices.Clone(changes) // two transactions lock rows in one order
	slices.SortFunc(sorted, func(a, b *rowlocker.Change) int { return strings.Compare(keyOf(a), keyOf(b)) })
	var single, several, left []*rowlocker.Change
	for _, c := range sorted {
		if c.Done, c.Err, c.Current = false, nil, nil; isSingle(c) {
			single = append(single, c)
		} else {
			several = append(several, c)
		}
	}
	free := len(changes) > 1
	r.write(ctx, single, free)
	r.explain(ctx, single)
	for _, c := range single {
		if free && c.Current != nil && (c.Join != nil || c.Current[0].Version == c.Rows[0].Version) {
			left = append(left, c)
		}
	}
	if end, ok := ctx.Deadline(); ok && free { // the callers of the others wait too
		limited, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = limited
	}
	r.write(ctx, left, false)
	for i := range several {
		r.write(ctx, several[i:i+1], false)
	}
	r.explain(ctx, append(left, several...))
	return nil
}

func keyOf(c *rowlocker.Change) string {
	if c.Join != nil {
		return c.Join.Key
	}
	return c.Rows[0].Key
}

// isSingle reports whether a change is one statement about one row.
func isSingle(c *rowlocker.Change) bool {
	if c.Join != nil {
		return true
	}
	row := &c.Rows[0]
	return len(c.Rows) == 1 && (row.Version > 0 || row.Version == 0 && row.Value != nil && len(c.Tell) == 0)
}

// write sends changes in one request, which is one transaction, and fills in
// what became of those that were done, or the error. Messages travel in the
// transaction if that does not wait for the disk, or in another behind it.
func (r *rows) write(ctx context.Context, changes []*rowlocker.Change, free bool) {
	if len(changes) == 0 {
		return
	}
	firm := slices.ContainsFunc(changes, func(c *rowlocker.Change) bool { return !c.Loose })
	answers, later := make([]written, len(changes)), later(changes, firm)
	err := r.server.send(ctx, r.server.calls, func(conn *pgxpool.Conn) error {
		b, ended := &pgx.Batch{}, false
		if later != nil {
			b.Queue("BEGIN")
		}
		for i, c := range changes {
			sql, args := r.statement(c, free, firm)
			b.Queue(sql, args...).Query(answers[i].read)
		}
		if later != nil {
			b.Queue("COMMIT").Exec(func(pgconn.CommandTag) error { ended = true; return nil })
			b.Queue(r.sql.after, later...)
		}
		err := conn.SendBatch(ctx, b).Close()
		if ended { // a message is a hint
			return nil
		}
		if later != nil && code(err) != "" { // or the pool closes the connection
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return err
	})
	for i, c := range changes {
		switch a := &answers[i]; {
		case err != nil:
			c.Err = translate(err)
		case a.version > 0:
			c.Done, c.Version, c.Written = true, a.version, a.written
		}
	}
}

// later returns the arguments of afterSQL, or nil.
func later(changes []*rowlocker.Change, firm bool) []any {
	var keys [][]byte
	var old []int64
	var tickets, instances []string
	for _, c := range changes {
		if !firm && isSingle(c) {
			continue
		}
		if j := c.Join; j != nil && j.To != "" {
			keys, old = append(keys, []byte(j.Key)), append(old, -1)
			tickets, instances = append(tickets, j.Name), append(instances, j.To)
		}
		for _, m := range c.Tell {
			row := &c.Rows[m.Row]
			keys, old = append(keys, []byte(row.Key)), append(old, row.Version)
			tickets, instances = append(tickets, ""), append(instances, m.To)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return []any{keys, old, tickets, instances}
}

// written is what a statement says that was done: nothing, if the version is 0.
type written struct{ version, written int64 }

// read reads the answer of a statement.
func (w *written) read(rs pgx.Rows) error {
	if *w = (written{}); rs.Next() {
		return rs.Scan(&w.version, &w.written, nil, nil)
	}
	return nil
}

// statement returns what carries out a change, and tells it if it does not wait
// for the disk.
func (r *rows) statement(c *rowlocker.Change, free, firm bool) (sql string, args []any) {
	if j := c.Join; j != nil {
		keep, goes := int64(0), ""
		if j.Open { // the one that is there is replaced
			keep, goes = j.KeepFor.Microseconds(), j.Name
		}
		return r.sql.join, []any{[]byte(j.Key), keep, ticketOf(j), firm, free, goes, j.Open, j.Held}
	}
	if !isSingle(c) {
		return r.sql.all, argsOfAll(c, firm)
	}
	row := &c.Rows[0]
	args = []any{[]byte(row.Key), row.KeepFor.Microseconds(), valueOf(row), firm, free}
	if row.Version == 0 {
		return r.sql.into, append(args, row.Unaware)
	}
	args = append(args, row.Version)
	if len(c.Tell) == 0 && len(row.Drop) == 0 && row.Beside == 0 && c.Current == nil {
		return r.sql.over, append(args, row.Unaware)
	}
	drops, above, below := besides(row)
	along := ""
	if !firm {
		along = commas(hearers(c, false))
	}
	return r.sql.told, append(args, drops, above, below, commas(hearers(c, true)), along, row.Unaware)
}

// argsOfAll are the arguments of all.sql.
func argsOfAll(c *rowlocker.Change, firm bool) []any {
	n := len(c.Rows)
	keys, values, drops, unaware := make([][]byte, n), make([][]byte, n), make([]string, n), make([]string, n)
	keep, old, beside, behind := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range c.Rows {
		row := &c.Rows[i]
		keys[i], keep[i], values[i], old[i] = []byte(row.Key), row.KeepFor.Microseconds(), valueOf(row), row.Version
		drops[i], beside[i], behind[i] = besides(row)
		unaware[i] = row.Unaware
	}
	return []any{keys, keep, values, firm, drops, old, beside, behind, commas(hearers(c, true)), unaware}
}

// valueOf returns the value of a row that is written. Empty is none.
func valueOf(row *rowlocker.Row) []byte {
	if row.Value == nil {
		return []byte{}
	}
	return row.Value
}

// besides returns the names of the tickets that go, and which others refuse the
// write of a row: those above one version, and claims below another, because
// nobody who came before may be overlooked.
func besides(row *rowlocker.Row) (drops string, above, below int64) {
	names := make([]string, len(row.Drop))
	for i, t := range row.Drop {
		names[i], below = t.Name, max(below, t.Version)
	}
	if above = math.MaxInt64; row.Alone {
		above = row.Beside
	}
	return commas(names), above, below
}

// ticketOf returns the ticket that a join adds: NAME/BASE64, or "".
func ticketOf(j *rowlocker.Join) string {
	if j.Leave {
		return ""
	}
	return j.Name + "/" + base64.StdEncoding.EncodeToString(j.Value)
}

// hearers returns the processes that a change of rows is told to, or only those
// that must hear of it.
func hearers(c *rowlocker.Change, must bool) (instances []string) {
	for _, m := range c.Tell {
		if m.Must || !must {
			instances = append(instances, m.To)
		}
	}
	return instances
}

// commas joins names, which have none.
func commas(names []string) string { return strings.Join(names, ",") }

// explain fills in what has refused those of changes that were not done.
func (r *rows) explain(ctx context.Context, changes []*rowlocker.Change) {
	var keys, ears []string
	var which []*rowlocker.Change
	for _, c := range changes {
		if c.Done || c.Err != nil {
			continue
		}
		which, keys, ears = append(which, c), append(keys, keyOf(c)), append(ears, hearers(c, true)...)
		for i := 1; i < len(c.Rows); i++ {
			keys = append(keys, c.Rows[i].Key)
		}
	}
	if len(which) == 0 {
		return
	}
	found, err := r.Load(ctx, keys)
	var dead []string
	if len(ears) > 0 && err == nil {
		dead, err = r.Dead(ctx, ears)
	}
	for _, c := range which {
		if err != nil {
			c.Err = errors.Join(err, locker.ErrUnsent)
			continue
		}
		n := max(len(c.Rows), 1)
		c.Current, found = found[:n], found[n:]
		c.Dead = slices.DeleteFunc(hearers(c, true), func(to string) bool { return !slices.Contains(dead, to) })
	}
}
