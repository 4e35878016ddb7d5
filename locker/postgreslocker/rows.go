package postgreslocker

import (
	"context"
	"encoding/base64"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// rows are the table, and what its processes tell one another. They are safe
// for concurrent use.
type rows struct {
	wrong  error // the first wrong setting
	sql    *statements
	server *server
	ears   ears
	pulse  atomic.Pointer[pulse]
	news   sync.WaitGroup // messages on their way, until Close
}

var (
	_ rowlocker.Ears      = (*rows)(nil)
	_ rowlocker.Pulse     = (*rows)(nil)
	_ rowlocker.Ticketing = (*rows)(nil)
	_ rowlocker.Worker    = (*rows)(nil)
)

// batchMax is the number of changes in a request.
const batchMax = 256

// Traits implements [rowlocker.Rows].
func (*rows) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: "postgreslocker", Clock: true, Grain: time.Microsecond, Blind: true, Members: true,
		Workers: workers, Batch: batchMax, Findings: findings,
	}
}

// Tickets says that the rows have tickets: a join adds to the row, under its
// lock, and leaves its version as it is.
func (*rows) Tickets() {}

// Open checks the settings and makes the pool.
func (r *rows) Open() error {
	if r.wrong != nil {
		return r.wrong
	}
	if r.ears.at != nil {
		r.ears.at = r.server.wired(r.ears.at)
	}
	return r.server.open()
}

// Close closes the connections.
func (r *rows) Close() {
	r.news.Wait()
	r.server.close()
}

// scanned returns the row of a SELECT of rowSQL.
func scanned(from pgx.CollectableRow) (row rowlocker.Row, err error) {
	var key []byte
	var tickets []string
	var readOnly bool
	err = from.Scan(&key, &row.Version, &row.Written, &row.Value, &tickets, &row.Now, &readOnly)
	if err == nil && readOnly { // what such a server says may be old
		err = errReadOnly
	}
	row.Key, row.Tickets = string(key), ticketsOf(tickets)
	return row, err
}

// ticketsOf returns the tickets that stand in a row.
func ticketsOf(texts []string) (ts []rowlocker.Ticket) {
	for _, text := range texts {
		if f := strings.SplitN(text, "/", 3); len(f) == 3 {
			version, _ := strconv.ParseInt(f[0], 10, 64)
			value, _ := base64.StdEncoding.DecodeString(f[2])
			ts = append(ts, rowlocker.Ticket{Name: f[1], Version: version, Value: value})
		}
	}
	return ts
}

// Load reads rows by one statement.
func (r *rows) Load(ctx context.Context, keys []string) (found []rowlocker.Row, err error) {
	ks := make([][]byte, len(keys))
	for i, k := range keys {
		ks[i] = []byte(k)
	}
	found, err = collect(ctx, r.server, r.server.calls, scanned, r.sql.load, ks)
	return found, translate(err)
}

// Scan reads a page by one statement.
func (r *rows) Scan(ctx context.Context, after string, n int) ([]rowlocker.Row, error) {
	found, err := collect(ctx, r.server, r.server.pages, scanned, r.sql.scan, []byte(after), n)
	return found, translate(err)
}

// Swap sends the changes in one statement. If there are several, that leaves
// out those whose rows somebody else has locked, and another statement waits
// for them.
func (r *rows) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	r.ears.begin()
	if len(changes) == 1 {
		_, err := r.swap(ctx, r.sql.swap, changes)
		return err
	}
	locked, err := r.swap(ctx, r.sql.swapFree, changes)
	if err != nil || len(locked) == 0 {
		return err
	}
	if end, ok := ctx.Deadline(); ok { // the callers of the others wait too
		limited, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = limited
	}
	if _, err := r.swap(ctx, r.sql.swap, locked); err != nil {
		for _, c := range locked {
			c.Err = err
		}
	}
	return nil
}

// swap sends the changes, by sql if they have several rows, and returns those
// that the statement has left out.
func (r *rows) swap(
	ctx context.Context, sql string, changes []*rowlocker.Change,
) (locked []*rowlocker.Change, err error) {
	loose := !slices.ContainsFunc(changes, func(c *rowlocker.Change) bool { return !c.Loose })
	lines := linesOf(changes, loose)
	if l := &lines[0]; len(lines) == 1 && (l.kind != writes || len(l.value) > 0) {
		sql = r.sql.one
	}
	answers, err := collect(ctx, r.server, r.server.calls, answered, sql, argsOf(lines)...)
	if err != nil {
		return nil, translate(err)
	}
	locked = deliver(answers, lines, changes)
	if !loose {
		r.tell(lines, changes)
	}
	return locked, nil
}

// What a line does to a row.
const (
	writes = iota
	joins  // the queue of a key that one claim owns
	shares // a row that is open
	stays  // there, or leaves it
)

// line is a row of a change, as the statements get it.
type line struct {
	kind      int64
	key       []byte
	old, keep int64 // version, µs
	value     []byte
	drops     []string
	beside    int64
	behind    int64    // version of the newest ticket that goes: older ones go too
	ticket    string   // to be added: NAME/BASE64
	must      []string // instances
	firm      bool
	tell      []string // instances
	along     []string // those that the statement tells

	head, tail string // of the message: version and time stand between
	i, row     int    // which change, and which of its rows
}

// argsOf are the arguments of changes.sql.
func argsOf(lines []line) []any {
	return []any{
		column(lines, func(l *line) int64 { return l.kind }),
		column(lines, func(l *line) []byte { return l.key }),
		column(lines, func(l *line) int64 { return l.old }),
		column(lines, func(l *line) int64 { return l.keep }),
		column(lines, func(l *line) []byte { return l.value }),
		column(lines, func(l *line) string { return commas(l.drops) }),
		column(lines, func(l *line) int64 { return l.beside }),
		column(lines, func(l *line) int64 { return l.behind }),
		column(lines, func(l *line) string { return l.ticket }),
		column(lines, func(l *line) string { return commas(l.must) }),
		column(lines, func(l *line) bool { return l.firm }),
		column(lines, func(l *line) int64 { return int64(l.i) }),
		column(lines, func(l *line) string { return commas(l.along) }),
		column(lines, func(l *line) string { return l.head }),
		column(lines, func(l *line) string { return l.tail }),
	}
}

func column[T any](lines []line, of func(*line) T) []T {
	all := make([]T, len(lines))
	for i := range lines {
		all[i] = of(&lines[i])
	}
	return all
}

// commas joins names, which have none.
func commas(names []string) string { return strings.Join(names, ",") }

// linesOf returns the lines of changes. Messages travel along if the statement
// does not wait for the disk: transactions that notify wait for one another.
func linesOf(changes []*rowlocker.Change, loose bool) (lines []line) {
	for i, c := range changes {
		first := len(lines)
		for n, row := range c.Rows {
			lines = append(lines, lineOf(i, n, row, !c.Loose))
		}
		if c.Join != nil {
			lines = append(lines, joining(i, c.Join, !c.Loose))
		}
		for _, m := range c.Tell {
			l := &lines[first+m.Row]
			l.tell, l.head = append(l.tell, m.To), "r "+encoded(l.key)
			if l.tail = " " + encoded(l.value); len(l.head)+len(l.tail) > noticeMax {
				l.tail = ""
			}
			if m.Must {
				l.must = append(l.must, m.To)
			}
		}
		for n := first; loose && n < len(lines); n++ {
			lines[n].along = lines[n].tell
		}
	}
	return lines
}

func lineOf(i, n int, row rowlocker.Row, firm bool) line {
	l := line{
		i: i, row: n, key: []byte(row.Key), old: row.Version, keep: row.KeepFor.Microseconds(), value: row.Value,
		beside: math.MaxInt64, firm: firm,
	}
	if l.value == nil {
		l.value = []byte{}
	}
	for _, t := range row.Drop {
		l.drops, l.behind = append(l.drops, t.Name), max(l.behind, t.Version)
	}
	if row.Alone {
		l.beside = row.Beside
	}
	return l
}

func joining(i int, j *rowlocker.Join, firm bool) line {
	l := lineOf(i, 0, rowlocker.Row{Key: j.Key}, firm)
	l.kind, l.ticket = joins, j.Name+"/"+encoded(j.Value)
	if j.Open { // the one that is there is replaced
		l.kind, l.drops, l.keep = shares, []string{j.Name}, j.KeepFor.Microseconds()
	}
	if j.Held {
		l.kind = stays
	}
	if j.Leave {
		l.ticket = ""
	}
	if j.To != "" {
		l.tell, l.head, l.tail = []string{j.To}, "t "+encoded(l.key), " "+l.ticket
	}
	return l
}

// answer is a row of swap.sql, or of one.sql.
type answer struct {
	n             int // of the line, from 1
	done, skipped bool
	next, now     int64 // version and time of what was written
	at, written   int64 // of what was there
	was           []byte
	tickets, dead []string
}

func answered(from pgx.CollectableRow) (a answer, err error) {
	err = from.Scan(&a.n, &a.done, &a.skipped, &a.next, &a.now, &a.at, &a.written,
		&a.was, &a.tickets, &a.dead, nil, nil)
	return a, err
}

// deliver fills in what became of the changes, and returns those that were left
// out.
func deliver(answers []answer, lines []line, changes []*rowlocker.Change) (locked []*rowlocker.Change) {
	for _, c := range changes {
		c.Current = make([]rowlocker.Row, max(len(c.Rows), 1))
	}
	for _, a := range answers {
		l := &lines[a.n-1]
		c := changes[l.i]
		if c.Done, c.Dead = a.done, a.dead; a.done {
			c.Version, c.Written = a.next, a.now
		}
		if a.skipped && !slices.Contains(locked, c) {
			locked = append(locked, c)
		}
		c.Current[l.row] = rowlocker.Row{
			Key: string(l.key), Version: a.at, Written: a.written, Now: a.now, Value: a.was,
			Tickets: ticketsOf(a.tickets),
		}
	}
	return locked
}

func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = time.Minute // since a row has meant something, and a process was alive
	sweepMax   = 10 * time.Second
)

// Work deletes rows that mean nothing any more, a thousand at a time.
func (r *rows) Work(ctx context.Context) {
	for lockerkit.Pause(sweepEvery+rand.N(sweepEvery), ctx.Done()) {
		r.sweep(ctx, r.sql.sweep)
		r.sweep(ctx, r.sql.bury)
	}
}

func (r *rows) sweep(ctx context.Context, sql string) {
	for {
		limited, cancel := context.WithTimeout(ctx, sweepMax)
		gone, err := collect(limited, r.server, r.server.pages, pgx.RowTo[bool], sql, sweepAfter.Microseconds())
		cancel()
		if err != nil || len(gone) < 1000 {
			return
		}
	}
}
