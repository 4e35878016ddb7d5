package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	proveMost   = 5 * time.Minute
	provePrefix = "guardprove-" // begins the prefix of each run
	checksTime  = time.Second   // for Check again and again, whose look at scripts is short
)

func (c *console) prove() *cli.Command {
	return &cli.Command{
		Name:      "prove",
		Usage:     "load a Redis server that you do not know yet, and report whether it keeps what leases need",
		ArgsUsage: "[ADDRESS]",
		Description: `For a new server, a new version or a new cloud plan. Run it where the services will run, with their user. ADDRESS is --url, or
a host and a port.

Prove makes the checks of guardctl check, and then a storm: several guards, each with a client of its own, compete for some keys. A
judge looks for two holders at once, fencing tokens that go down, too many permits, leases that end before their time and lost
wake-ups. The keys have a prefix of their own and are deleted at the end. The storm uses the server as hard as it can, so prove refuses a server that has
other keys, unless --yes is given.

With --failover the storm goes on until the primary changes, and for --time after that, 5 minutes at most: trigger the failover when
prove says so.

The report goes to standard output, as Markdown or, with --json, as JSON. It has no URL, user or password, but the text of a
failure may name an address. Exit status 0 only if nothing was violated.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "time", Value: 30 * time.Second, Usage: "of the storm, at most 5m"},
			&cli.DurationFlag{Name: "ttl", Value: 10 * time.Second, Usage: "of the services, see guard.WithTTL"},
			&cli.BoolFlag{Name: "failover", Usage: "wait for a failover that you trigger"},
			&cli.BoolFlag{Name: "yes", Usage: "load the server although it holds other keys"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := aim(cmd); err != nil {
				return err
			}
			rdb, err := connect(cmd)
			if err != nil {
				return err
			}
			defer rdb.Close()
			p := &prover{
				cmd: cmd, rdb: rdb, prefix: provePrefix + lockerkit.NewID(), progress: c.errs,
				proof: newProof(cmd),
			}
			if err := p.run(ctx); err != nil {
				return err
			}
			return p.proof.write(c.out, cmd.Bool("json"))
		},
	}
}

// aim makes the argument of prove the URL, and checks the flags.
func aim(cmd *cli.Command) error {
	if cmd.Args().Len() > 1 {
		return args(cmd, 1)
	}
	if addr := cmd.Args().First(); addr != "" {
		if !strings.Contains(addr, "://") {
			addr = "redis://" + addr
		}
		if err := cmd.Set("url", addr); err != nil {
			return err
		}
	}
	if d := cmd.Duration("time"); d <= 0 || d > proveMost {
		return fmt.Errorf("--time is %v, want at most %v", d, proveMost)
	}
	return nil
}

// prover proves one server.
type prover struct {
	cmd      *cli.Command
	rdb      redis.UniversalClient // for all that is not a lease
	prefix   string
	progress terminal
	proof    *proof
}

// run fills the proof. Its error says that the server could not be judged.
func (p *prover) run(ctx context.Context) error {
	if !p.cmd.Bool("yes") {
		if err := p.alone(ctx); err != nil {
			return err
		}
	}
	if err := p.describe(ctx); err != nil {
		return err
	}
	defer p.clean(context.WithoutCancel(ctx))
	if err := p.check(ctx); err != nil {
		return err
	}
	p.measure(ctx)
	return p.storm(ctx)
}

// primaries calls do with each server that may have keys, in a cluster at the
// same time.
func (p *prover) primaries(ctx context.Context, do func(ctx context.Context, c *redis.Client) error) error {
	switch c := p.rdb.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, c)
	}
	return fmt.Errorf("a client of type %T", p.rdb)
}

// alone returns an error if the server holds keys that are not prove's.
func (p *prover) alone(ctx context.Context) error {
	ctx, cancel := limited(ctx, p.cmd)
	defer cancel()
	err := p.primaries(ctx, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, "", 1000).Iterator()
		for keys.Next(ctx) {
			if !strings.HasPrefix(keys.Val(), provePrefix) {
				return errors.New("there are some")
			}
		}
		return keys.Err()
	})
	if err != nil {
		return fmt.Errorf("prove loads a server that holds no other keys: %w; with --yes it loads this one", err)
	}
	return nil
}

// clean deletes the keys of this run.
func (p *prover) clean(ctx context.Context) {
	ctx, cancel := limited(ctx, p.cmd)
	defer cancel()
	err := p.primaries(ctx, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, p.prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Del(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	})
	if err != nil {
		p.proof.Left = p.prefix + ":*"
	}
}

// describe reads versions and settings. It returns an error if the server does
// not answer.
func (p *prover) describe(ctx context.Context) error {
	ctx, cancel := limited(ctx, p.cmd)
	defer cancel()
	var mu sync.Mutex // guards the rest, because primaries answer at the same time
	err := p.primaries(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil {
			return err
		}
		info := readInfo(c.Info(ctx).Val())
		mu.Lock()
		defer mu.Unlock()
		p.proof.Server.Primaries++
		p.proof.Server.read(info)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", guard.ErrUnavailable, err)
	}
	return nil
}

// readInfo reads the answer of INFO.
func readInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}

// runIDs tells the primaries of one moment from those of another. "" means that
// they do not say.
func (p *prover) runIDs(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex // guards ids
	var ids []string
	err := p.primaries(ctx, func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx, "server").Result()
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, readInfo(text)["run_id"])
		return err
	})
	slices.Sort(ids)
	return strings.Join(ids, ""), err
}

// check makes the checks of Check for a while, each in a locker that has not
// made them before.
func (p *prover) check(ctx context.Context) error {
	for start := time.Now(); time.Since(start) < checksTime; {
		g, closeGuard, err := p.guard()
		if err != nil {
			return err
		}
		limit, cancel := limited(ctx, p.cmd)
		p.proof.Findings, err = g.Findings(limit)
		cancel()
		closeGuard()
		if err != nil {
			return err
		}
		p.proof.Checks++
		if p.proof.refuses() {
			return nil
		}
	}
	return nil
}

// measure measures what does not need a lease. What the server refuses is not
// measured.
func (p *prover) measure(ctx context.Context) {
	ctx, cancel := limited(ctx, p.cmd)
	defer cancel()
	m := &p.proof.Measured
	m.RoundTrip = spreadOf(100, func() error { return p.rdb.Ping(ctx).Err() })

	const batch = 100
	m.Script = spreadOf(10, func() error {
		pipe := p.rdb.Pipeline()
		for range batch {
			pipe.Eval(ctx, `redis.call("set", KEYS[1], "1", "px", 5000) return redis.call("get", KEYS[1])`,
				[]string{p.prefix + ":script"})
		}
		_, err := pipe.Exec(ctx)
		return err
	}).less(m.RoundTrip.Median, batch)

	channel := p.prefix + ":message"
	sub := p.rdb.Subscribe(ctx, channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return
	}
	m.Message = spreadOf(100, func() error {
		if err := p.rdb.Publish(ctx, channel, "x").Err(); err != nil {
			return err
		}
		_, err := sub.ReceiveMessage(ctx)
		return err
	})
}

// spread is how long something took.
type spread struct {
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
}

// spreadOf measures do n times. It is zero if do fails.
func spreadOf(n int, do func() error) spread {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := do(); err != nil {
			return spread{}
		}
		took[i] = time.Since(start)
	}
	return newSpread(took)
}

func newSpread(took []time.Duration) spread {
	if len(took) == 0 {
		return spread{}
	}
	slices.Sort(took)
	return spread{took[len(took)/2], took[len(took)*99/100]}
}

// less returns the spread of each of n parts, after what all have in common.
func (s spread) less(common time.Duration, n int) spread {
	return spread{max(0, s.Median-common) / time.Duration(n), max(0, s.P99-common) / time.Duration(n)}
}
