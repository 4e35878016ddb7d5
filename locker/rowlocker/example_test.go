package rowlocker_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// server stands for a database. It has a clock, by which it drops rows, and one
// counter for the versions of all keys, so that none of them falls.
type server struct {
	mu      sync.Mutex // guards what follows
	rows    map[string]rowlocker.Row
	version int64
}

// find returns the row of key, with Version 0 for none. s.mu is held.
func (s *server) find(key string, now time.Time) rowlocker.Row {
	row := s.rows[key]
	if row.KeepFor < now.Sub(time.UnixMicro(row.Written)) {
		delete(s.rows, key)
		row = rowlocker.Row{}
	}
	row.Key, row.Now = key, now.UnixMicro()
	return row
}

// store is the part that the author of a store writes.
type store struct{ db *server }

func (store) Traits() rowlocker.Traits {
	return rowlocker.Traits{Name: "example", Clock: true, Grain: time.Microsecond, Workers: 2, Batch: 100}
}
func (store) Open() error { return nil }
func (store) Close()      {}

// Load is a SELECT of several rows.
func (s store) Load(_ context.Context, keys []string) (rows []rowlocker.Row, err error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for _, key := range keys {
		rows = append(rows, s.db.find(key, time.Now()))
	}
	return rows, nil
}

// Swap is a transaction for each change. All of them may travel in one request.
func (s store) Swap(_ context.Context, changes []*rowlocker.Change) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for _, c := range changes {
		s.db.swap(c, time.Now())
	}
	return nil
}

// swap writes all rows of c, or none and brings what is there. s.mu is held.
func (s *server) swap(c *rowlocker.Change, now time.Time) {
	c.Current, c.Done = nil, true
	for _, row := range c.Rows {
		is := s.find(row.Key, now)
		c.Current = append(c.Current, is)
		c.Done = c.Done && (row.Version == is.Version || row.Version == rowlocker.Any)
	}
	if !c.Done {
		return
	}
	s.version++
	c.Version, c.Written = s.version, now.UnixMicro()
	for _, row := range c.Rows {
		if row.Value == nil {
			delete(s.rows, row.Key)
			continue
		}
		row.Version, row.Written = c.Version, c.Written
		s.rows[row.Key] = row
	}
}

// Scan is a SELECT of rows in the order of their keys, page by page.
func (s store) Scan(_ context.Context, after string, n int) (rows []rowlocker.Row, err error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.db.rows)) {
		if row := s.db.find(key, time.Now()); key > after && row.Version > 0 && len(rows) < n {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Check has nothing to add to how the probe went.
func (store) Check(_ context.Context, _, _ time.Duration, failed error) error { return failed }

// A whole store: what it can do beside this, as to bring messages, it says by
// further methods. Without them the Locker looks for itself.
func Example() {
	g, err := guard.New(rowlocker.New(store{&server{rows: map[string]rowlocker.Row{}}}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = g.Close(ctx) }()

	err = g.Do(ctx, "stock:42", func(context.Context) error {
		fmt.Println("nobody else sells 42 now")
		return nil
	})
	fmt.Println(err)
	// Output:
	// nobody else sells 42 now
	// <nil>
}
