package jobtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Scheduler describes AddTick of a package under jobs.
type Scheduler struct {
	// Start starts a scheduler with one job, whose panics it recovers. stop ends
	// it and waits for the job. If AddTick fails, no job may be left.
	Start func(j Job) (stop func() error, err error)

	TickOf func(ctx context.Context) (at time.Time, ok bool)

	Seconds bool // a schedule may have a field of seconds
	Twice   bool // ticks of the hour that comes twice in autumn do, whatever the version of the framework
}

// Job is a job that ticks on one instance.
type Job struct {
	Guard    *guard.Guard
	Name     string
	Spec     string // of its schedule
	Location *time.Location
	Work     func(ctx context.Context) error
	CatchUp  int // WithCatchUp, unless 0
}

// Ticked counts the runs of each tick.
type Ticked struct {
	TickOf func(ctx context.Context) (at time.Time, ok bool)

	mu   sync.Mutex // guards runs
	runs map[time.Time]int
}

// Work is the job.
func (r *Ticked) Work(ctx context.Context) error {
	at, ok := r.TickOf(ctx)
	if !ok {
		return errors.New("no tick")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = map[time.Time]int{}
	}
	r.runs[at.UTC()]++
	return nil
}

// Ticks returns the ticks that were run, in order, and fails t unless each was
// run once.
func (r *Ticked) Ticks(t *testing.T) []time.Time {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, n := range r.runs {
		if n != 1 {
			t.Errorf("%v: %d runs, want 1", at, n)
		}
	}
	return slices.SortedFunc(maps.Keys(r.runs), time.Time.Compare)
}

// want fails t unless each of the ticks was run once.
func (r *Ticked) want(t *testing.T, want []time.Time) {
	t.Helper()
	if got := r.Ticks(t); !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("ran for %v, want %v", got, want)
	}
}

// RunTicks runs the table of AddTick, each row as a subtest in virtual time.
func RunTicks(t *testing.T, s Scheduler) {
	t.Helper()
	for name, row := range map[string]func(*testing.T){
		"each tick runs once on all instances":       s.eachOnce,
		"ticks are those of the schedule's location": s.located,
		"a job that panics has run":                  s.panics,
		"a start makes up for what was missed":       s.makesUp,
		"what instances cannot agree on is refused":  s.refuses,
	} {
		t.Run(name, row)
	}
}

// instances starts three instances of the job for a time. Each starts at a
// moment of its own.
func (s Scheduler) instances(t *testing.T, length time.Duration, j Job) {
	t.Helper()
	store := memlocker.New()
	var stops []func() error
	for range 3 {
		j.Guard, j.Name = testguard.Patient(t, store.Peer()), "report"
		stop, err := s.Start(j)
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
		time.Sleep(700 * time.Millisecond)
	}
	time.Sleep(length)
	for _, stop := range stops {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// moments returns the seconds between two times for which is returns true.
func moments(from, to time.Time, is func(time.Time) bool) (all []time.Time) {
	for at := from.Truncate(time.Second).Add(time.Second); at.Before(to); at = at.Add(time.Second) {
		if is(at) {
			all = append(all, at)
		}
	}
	return all
}

func everySeventh(at time.Time) bool { return at.Unix()%7 == 0 }

func (s Scheduler) eachOnce(t *testing.T) {
	t.Helper()
	rows := map[string]func(time.Time) bool{"@every 7s": everySeventh}
	if s.Seconds {
		rows["15 * * * * *"] = func(at time.Time) bool { return at.Second() == 15 }
	}
	for spec, is := range rows {
		synctest.Test(t, func(t *testing.T) {
			ran, from := &Ticked{TickOf: s.TickOf}, time.Now()
			s.instances(t, 10*time.Minute, Job{Spec: spec, Location: time.UTC, Work: ran.Work})
			ran.want(t, moments(from, time.Now(), is))
		})
	}
}

// Clocks in Berlin skip the time from 2:00 to 3:00 on the last Sunday of March,
// and have it twice on that of October.
func (s Scheduler) located(t *testing.T) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for spec, row := range map[string]struct {
		hour     int
		minutes  []int
		location *time.Location
	}{
		"30 1 * * *":                        {1, []int{30}, berlin},
		"30 2 * * *":                        {2, []int{30}, berlin},
		"*/30 2 * * *":                      {2, []int{0, 30}, berlin},
		"30 3 * * *":                        {3, []int{30}, berlin},
		"CRON_TZ=Europe/Berlin 30 2 * * * ": {2, []int{30}, time.UTC},
	} {
		for day, twice := range map[string]int{"2000-03-24": -1, "2000-10-27": 1} { // two days before a change
			if twice > 0 && row.hour == 2 && !s.Twice {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				start, err := time.Parse(time.DateOnly, day)
				if err != nil {
					t.Fatal(err)
				}
				start = start.Add(12 * time.Hour)
				time.Sleep(time.Until(start))
				ran := &Ticked{TickOf: s.TickOf}
				s.instances(t, 5*24*time.Hour, Job{Spec: spec, Location: row.location, Work: ran.Work})
				want := moments(start, time.Now(), func(at time.Time) bool {
					at = at.In(berlin)
					return at.Hour() == row.hour && at.Second() == 0 && slices.Contains(row.minutes, at.Minute())
				})
				if n := 5 * len(row.minutes); row.hour == 2 && len(want) != n+twice*len(row.minutes) {
					t.Errorf("%s from %s has %d ticks", spec, day, len(want))
				}
				if ran.want(t, want); t.Failed() {
					t.Fatalf("%q from %s", spec, day)
				}
			})
		}
	}
}

// Three instances recover the panic of a job. Each tick runs on one of them.
func (s Scheduler) panics(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ran, from := &Ticked{TickOf: s.TickOf}, time.Now()
		s.instances(t, time.Minute, Job{Spec: "@every 7s", Location: time.UTC, Work: func(ctx context.Context) error {
			_ = ran.Work(ctx)
			panic("no paper")
		}})
		ran.want(t, moments(from, time.Now(), everySeventh))
	})
}

// The night is missed by all instances. The first that starts makes up for it,
// and not at its next tick.
func (s Scheduler) makesUp(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, ran := memlocker.New(), &Ticked{TickOf: s.TickOf}
		day := func(up time.Duration) {
			g, err := guard.New(store.Peer())
			if err != nil {
				t.Fatal(err)
			}
			stop, err := s.Start(Job{
				Guard: g, Name: "report", Spec: "0 3 * * *", Location: time.UTC, Work: ran.Work, CatchUp: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(up)
			if err := errors.Join(stop(), g.Close(t.Context())); err != nil {
				t.Error(err)
			}
			time.Sleep(24*time.Hour - up)
		}
		day(4 * time.Hour) // from midnight
		var want []time.Time
		for n := 1; n <= 3; n++ {
			want = append(want, time.Date(2000, 1, n, 3, 0, 0, 0, time.UTC))
			day(time.Minute)
			ran.want(t, want)
		}
	})
}

func (s Scheduler) refuses(t *testing.T) {
	t.Helper()
	good := Job{
		Guard: (*guard.Guard)(nil).With(), Name: "a", Spec: "@daily", Location: time.UTC,
		Work: func(context.Context) error { return nil },
	}
	for name, change := range map[string]func(*Job){
		"a bad spec":      func(j *Job) { j.Spec = "x" },
		"no name":         func(j *Job) { j.Name = "" },
		"no job":          func(j *Job) { j.Work = nil },
		"negative number": func(j *Job) { j.CatchUp = -1 },
		"MinHold":         func(j *Job) { j.Guard = j.Guard.With(guard.WithMinHold(time.Second)) },
	} {
		j := good
		change(&j)
		if _, err := s.Start(j); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: got %v, want ErrInvalidOption", name, err)
		}
	}
}
