package explore

import (
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
)

// pool keeps connections from one run to the next, because opening one takes
// longer than a run. A process that gets one sees what it would see on a new
// one: the pool takes none back with a transaction, or after a statement that
// may have changed more than rows. Only SQLite's last_insert_rowid and changes
// outlast a process.
type pool struct {
	on   bool
	mu   sync.Mutex               // guards idle
	idle map[string][]driver.Conn // by DSN; of one driver
}

// take returns nil if there is none.
func (p *pool) take(dsn string) (c driver.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle[dsn]); n > 0 {
		c, p.idle[dsn] = p.idle[dsn][n-1], p.idle[dsn][:n-1]
	}
	return c
}

func (p *pool) put(c driver.Conn, dsn string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[dsn] = append(p.idle[dsn], c)
}

// close closes all, when there is no more run.
func (p *pool) close() {
	for dsn := range p.idle {
		for c := p.take(dsn); c != nil; c = p.take(dsn) {
			_ = c.Close()
		}
	}
}

// onlyRows reports whether a statement leaves its connection as it was.
func onlyRows(query string) bool {
	query = strings.TrimRight(query, "; \t\r\n")
	words := strings.Fields(query)
	return len(words) > 0 && !strings.Contains(query, ";") &&
		slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"}, strings.ToUpper(words[0]))
}
