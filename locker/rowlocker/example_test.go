package rowlocker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// store are Rows in memory, without a clock, and with none of what Rows can
// have beside. Each process has a Locker of its own on the same store.
type store struct {
	mu      sync.Mutex
	version int64 // of the last write, to any key
	rows    map[string]entry
}

type entry struct {
	rowlocker.Row
	held, kept time.Time // until when
}

func (*store) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: "example", Blind: true, Workers: 1, Batch: 16, Limits: locker.Limits{Late: locker.LookEvery},
	}
}

func (*store) Open() error { return nil }
func (*store) Close()      {}

func (*store) Check(_ context.Context, _, _ time.Duration, failed error) error { return failed }

// get returns the row of key. What is over is not there. The mutex is held.
func (s *store) get(key string) rowlocker.Row {
	e, now := s.rows[key], time.Now()
	if !now.Before(e.kept) {
		delete(s.rows, key)
		return rowlocker.Row{Key: key}
	}
	e.Vacant = !now.Before(e.held)
	return e.Row
}

func (s *store) Load(_ context.Context, keys []string) (rows []rowlocker.Row, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		rows = append(rows, s.get(key))
	}
	return rows, nil
}

func (s *store) Scan(_ context.Context, after string, n int) (rows []rowlocker.Row, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		if r := s.get(key); key > after && r.Version > 0 && len(rows) < n {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (s *store) Swap(_ context.Context, changes []*rowlocker.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.swap(c)
	}
	return nil
}

func (s *store) swap(c *rowlocker.Change) {
	c.Done, c.Current = true, nil
	for _, row := range c.Rows {
		is := s.get(row.Key)
		c.Current = append(c.Current, is)
		c.Done = c.Done && (row.Version == rowlocker.Any || row.Version == is.Version)
	}
	if !c.Done {
		return
	}
	s.version++
	c.Version = s.version
	now := time.Now()
	for _, row := range c.Rows {
		delete(s.rows, row.Key)
		if row.Value != nil {
			r := rowlocker.Row{Key: row.Key, Version: s.version, Value: row.Value}
			s.rows[row.Key] = entry{r, now.Add(row.HeldFor), now.Add(row.KeepFor)}
		}
	}
}

// A store in memory: what its author writes, and what its user does.
func Example() {
	g, err := guard.New(rowlocker.New(&store{rows: map[string]entry{}}))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)
	err = g.Do(ctx, "order 42", func(context.Context) error {
		fmt.Println("nobody else is here")
		return nil
	})
	fmt.Println(err)
	// Output:
	// nobody else is here
	// <nil>
}
