package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/locker"
)

const leaseTTL = 10 * time.Second

// contest is what callers do. They want one key, or each its own.
type contest struct {
	name               string
	processes, callers int // callers of each process
	own                bool

	// Guard alone has what follows: of 100 calls so many in another mode, of
	// which limit may run at once, and sections that last.
	share int
	mode  guard.Option
	limit int
	lasts time.Duration
}

var contests = []contest{
	{name: "own keys 1", processes: 1, callers: 1, own: true},
	{name: "own keys 8", processes: 1, callers: 8, own: true},
	{name: "own keys 64", processes: 1, callers: 64, own: true},
	{name: "hot 2 x 1", processes: 2, callers: 1},
	{name: "hot 8 x 1", processes: 8, callers: 1},
	{name: "hot 16 x 1", processes: 16, callers: 1},
	{name: "hot 2 x 10", processes: 2, callers: 10},
	{name: "hot 2 x 25", processes: 2, callers: 25},
	{name: "hot 4 x 25", processes: 4, callers: 25},
	permits("4 permits 8 x 1", 8, 1, 0),
	permits("4 permits 2 x 25, 5 ms", 2, 25, held),
	readers("readers 4 x 1, 5 ms", 4, 1, 100, held),
	readers("readers 16 x 1", 16, 1, 100, 0),
	readers("95 % readers 2 x 25, 5 ms", 2, 25, 95, held),
}

// held is how long sections last that do.
const held = 5 * time.Millisecond

func permits(name string, processes, callers int, lasts time.Duration) contest {
	return contest{name, processes, callers, false, 100, guard.WithPermits(4), 4, lasts}
}

func readers(name string, processes, callers, share int, lasts time.Duration) contest {
	return contest{name, processes, callers, false, share, guard.WithShared(), locker.NoLimit, lasts}
}

// key is what a caller of a process wants.
func (c contest) key(process, caller int) string {
	if !c.own {
		return "hot"
	}
	return guard.Key("own", process, caller)
}

// process runs sections under a lock, and tells each how many may run at once.
type process struct {
	section func(ctx context.Context, key string, f func(limit int)) error
	end     func()
}

// rival is a lock. start makes a process of a contest.
type rival struct {
	name  string
	start func(c contest) (process, error)
}

// withGuard is guard with a locker of open for each process.
func withGuard(open opener) rival {
	return rival{"guard", func(c contest) (process, error) {
		g, end, err := open.guard(c.callers)
		if err != nil {
			return process{}, err
		}
		other := g
		if c.mode != nil {
			other = g.With(c.mode)
		}
		return process{
			func(ctx context.Context, key string, f func(limit int)) error {
				by, limit := g, 1
				if rand.N(100) < c.share {
					by, limit = other, c.limit
				}
				return by.Do(ctx, key, func(context.Context) error { f(limit); return nil })
			},
			end,
		}, nil
	}}
}

// guard opens a guard for a process of so many callers.
func (open opener) guard(callers int, opts ...guard.Option) (g *guard.Guard, end func(), err error) {
	l, endLocker, err := open(callers)
	if err != nil {
		return nil, nil, err
	}
	opts = append(opts, guard.WithTTL(leaseTTL), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if g, err = guard.New(l, opts...); err != nil {
		return nil, nil, err
	}
	return g, func() {
		_ = g.Close(context.Background())
		endLocker()
	}, nil
}

// print runs rounds of each rival in turn, and prints the sections a second of
// each round. The first rival is guard.
func (c contest) print(length time.Duration, rounds int, rivals ...rival) error {
	if c.mode != nil {
		rivals = rivals[:1]
	}
	figures := make([][]int, len(rivals))
	for range rounds {
		for i, r := range rivals {
			n, err := c.round(length, r)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.name, r.name, err)
			}
			figures[i] = append(figures[i], n)
		}
	}
	fmt.Printf("%-26s", c.name)
	for i, r := range rivals {
		slices.Sort(figures[i])
		fmt.Printf(" %s %v /s", r.name, figures[i])
	}
	if len(rivals) > 1 {
		fmt.Printf(": %.1f x", float64(figures[0][rounds/2])/float64(max(1, figures[1][rounds/2])))
	}
	fmt.Println()
	return nil
}

// round returns sections a second.
func (c contest) round(length time.Duration, r rival) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	hot := &floor{}
	var all sync.WaitGroup
	for p := range c.processes {
		process, err := r.start(c)
		if err != nil {
			cancel()
			return 0, err
		}
		defer process.end()
		defer all.Wait()
		for caller := range c.callers {
			key, at := c.key(p, caller), hot
			if c.own {
				at = &floor{}
			}
			all.Go(func() {
				for ctx.Err() == nil {
					_ = process.section(ctx, key, func(limit int) { at.section(limit, c.work) })
				}
				if at != hot {
					hot.add(at)
				}
			})
		}
	}
	all.Wait()
	return hot.rate(length)
}

// work is what a section does.
func (c contest) work() {
	if c.lasts > 0 {
		time.Sleep(c.lasts)
	}
}

// floor judges the sections of a key, and counts them.
type floor struct {
	mu   sync.Mutex // guards what follows
	in   judge.Floor[*guest]
	n    int
	many int // sections that began beside too many others
}

type guest struct{ limit int }

func (g *guest) AtMost() int { return g.limit }

// section runs f as a section that limit may run at once.
func (f *floor) section(limit int, run func()) {
	g := &guest{limit}
	f.mu.Lock()
	f.n++
	if n, most := f.in.Enter(g); n > most {
		f.many++
	}
	f.mu.Unlock()
	run()
	f.mu.Lock()
	f.in.Leave(func(o *guest) bool { return o == g })
	f.mu.Unlock()
}

// add adds what another floor has counted. Its sections have ended.
func (f *floor) add(o *floor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n, f.many = f.n+o.n, f.many+o.many
}

// rate returns sections a second.
func (f *floor) rate(length time.Duration) (int, error) {
	if f.many > 0 {
		return 0, errors.New("more sections ran at once than may")
	}
	return int(float64(f.n) / length.Seconds()), nil
}

// hold holds n leases of 10 s for half a minute, and prints how many are lost.
func hold(ctx context.Context, open opener, n int) error {
	g, end, err := open.guard(25, guard.WithMaxHold(time.Hour), guard.WithMaxWait(time.Minute))
	if err != nil {
		return err
	}
	defer end()
	leases, start := make([]*guard.Lease, n), time.Now()
	each(leases, func(i int) {
		lease, err := g.Acquire(ctx, strconv.Itoa(i))
		if leases[i] = lease; err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	fmt.Printf("%d leases acquired in %v\n", n, time.Since(start).Round(time.Millisecond))
	time.Sleep(30 * time.Second)
	lost := 0
	for _, l := range leases {
		if l == nil || l.Context().Err() != nil {
			lost++
		}
	}
	fmt.Printf("%d lost in 30 s\n", lost)
	each(leases, func(i int) {
		if leases[i] != nil {
			_ = leases[i].Release(ctx)
		}
	})
	return nil
}

// each calls f for every lease, 100 at a time.
func each(leases []*guard.Lease, f func(i int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 100)
	for i := range leases {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	all.Wait()
}
