package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/internal/keyspace"
	"github.com/go-lockguard/guard/internal/lockercheck"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// provePrefix begins the keys of each run.
const provePrefix = "guardprove-"

func (c *console) prove() *cli.Command {
	return &cli.Command{
		Name:      "prove",
		Usage:     "try a server that you do not know yet, and report whether it keeps what leases need",
		ArgsUsage: "[ADDRESS]",
		Description: `For a new server, version or cloud plan, of any store. Run it where the services will run, with their user.
ADDRESS is --url, or a host and a port of Redis.

Prove makes the checks of guardctl check, and then all that a store of guard must pass. At last some guards compete for keys, and a judge looks
for two holders at once, tokens that go down, leases that end early and waiters that nobody wakes. All keys begin with guardprove- and are
deleted at the end. Tables that are missing are made. Prove lets no fault happen: it does not say what a failover loses.

The report is Markdown or, with --json, JSON. It has no URL, user or password, but the text of a failure may name an address. Exit status
0 only if nothing was violated.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "time", Value: 10 * time.Second, Usage: "of the competition"},
			&cli.DurationFlag{Name: "ttl", Value: 10 * time.Second, Usage: "of the services, see guard.WithTTL"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := aim(cmd); err != nil {
				return err
			}
			p := &prover{cmd: cmd, prefix: provePrefix + lockerkit.NewID() + "-", spaces: map[string]*keyspace.Space{}}
			p.proof.Date, p.proof.Guardctl = time.Now().UTC().Truncate(time.Second), version()
			p.proof.TTL, p.proof.Time = cmd.Duration("ttl"), cmd.Duration("time")
			p.proof.Store, _, _ = strings.Cut(cmd.String("url"), ":")
			err := p.run(ctx)
			if err == nil {
				err = p.proof.write(c.out, cmd.Bool("json"))
			}
			if e := p.clean(context.WithoutCancel(ctx)); e != nil {
				err = errors.Join(err, fmt.Errorf("delete the keys that begin with %s: %w", p.prefix, e))
			}
			return err
		},
	}
}

// aim makes the argument of prove the URL.
func aim(cmd *cli.Command) error {
	if cmd.Args().Len() > 1 {
		return args(cmd, 1)
	}
	addr := cmd.Args().First()
	switch {
	case addr == "":
		return nil
	case !strings.Contains(addr, "://") && !strings.HasPrefix(addr, "sqlite:"):
		addr = "redis://" + addr
	}
	return cmd.Set("url", addr)
}

// prover proves one store.
type prover struct {
	cmd    *cli.Command
	prefix string
	proof  proof

	mu     sync.Mutex // guards spaces
	spaces map[string]*keyspace.Space
}

// open opens a locker with a client of its own on a part of the store.
func (p *prover) open(part string) (l locker.Locker, end func(), err error) {
	l, end, err = openUnder(p.cmd, p.prefix+part)
	if err != nil || isRedis(p.cmd) {
		return l, end, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spaces[part] == nil {
		p.spaces[part] = keyspace.New(p.prefix + part + "/")
	}
	return p.spaces[part].In(l), end, nil
}

// run fills the proof. Its error says that the store could not be judged.
func (p *prover) run(ctx context.Context) error {
	l, end, err := open(p.cmd)
	if err != nil {
		return err
	}
	defer end()
	err = withLocker(ctx, l, func(g *guard.Guard) (err error) {
		ctx, cancel := limited(ctx, p.cmd)
		defer cancel()
		if m, ok := l.(locker.Migrator); ok {
			err = m.Migrate(ctx)
		}
		if err == nil {
			p.proof.Findings, err = g.Findings(ctx)
		}
		return err
	}, guard.WithTTL(p.proof.TTL))
	if err != nil || p.proof.refuses() {
		return err
	}
	p.proof.Results = lockercheck.TestAll(ctx, 4, p.open)
	return p.compete(ctx)
}

// compete lets guards compete. Its judge is patient with a slow machine.
func (p *prover) compete(ctx context.Context) error {
	rules := judge.Run{
		Library: judge.Library{Name: "guard", Own: true, Tokens: true, Tells: true},
		Roles:   []string{judge.Writer}, Slack: 2 * time.Second, GapSlack: p.proof.TTL, Seen: true, Least: 1,
	}
	var workers []*contest.Worker
	for range 3 { // each like a process of a service
		l, end, err := p.open("contest")
		if err != nil {
			return err
		}
		can := l.Capabilities()
		if can.Records {
			rules.Roles = judge.Roles[:len(judge.Roles)-1] // without keys that linger
		}
		rules.Late = max(can.Limits.Late, can.Limits.LateForOthers)
		g, err := contest.Open(l, func() error { end(); return nil }, guard.WithTTL(p.proof.TTL))
		if err != nil {
			return err
		}
		defer func() { _ = g.Close(context.WithoutCancel(ctx)) }() // again, or because another cannot be opened
		workers = append(workers, &contest.Worker{
			Callers: 8, Keys: 4, Long: 1, Roles: rules.Roles, TTL: p.proof.TTL, Seed: rand.Uint64(), Locker: g,
		})
	}
	v := contest.Together(ctx, workers, p.proof.Time, rules)
	p.proof.Grants = v.Grants
	if v.Fails() {
		p.proof.Broken = append(p.proof.Broken, v.Texts...)
	}
	return ctx.Err()
}

// proof is the report of prove. It has nothing that must stay secret.
type proof struct {
	lockercheck.Results

	OK       bool            `json:"ok"`
	Date     time.Time       `json:"date"`
	Guardctl string          `json:"guardctl"`
	Store    string          `json:"store"` // the scheme of the URL
	TTL      time.Duration   `json:"ttl_ns"`
	Time     time.Duration   `json:"time_ns"`
	Findings []guard.Finding `json:"findings,omitempty"`
	Grants   int             `json:"grants"`
}

// refuses reports whether a finding must be changed first.
func (p *proof) refuses() bool {
	return slices.ContainsFunc(p.Findings, func(f guard.Finding) bool { return f.Severity == guard.Refuse })
}

// write writes the report. It returns an error unless all is well.
func (p *proof) write(out io.Writer, asJSON bool) (err error) {
	p.OK = len(p.Broken) == 0 && !p.refuses() && p.Grants > 0
	if !p.OK {
		err = errors.New("not proven: see the report")
	}
	if asJSON {
		return errors.Join(writeJSON(out, p), err)
	}
	p.markdown(func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) })
	return err
}

func (p *proof) markdown(line func(format string, args ...any)) {
	line("# guardctl prove: %s, %s\n", p.Store, p.Date.Format("2006-01-02 15:04 MST"))
	switch {
	case p.OK:
		line("**Proven: nothing was violated.** A test shows faults, not their absence. Run it again after an upgrade.")
	case p.refuses():
		line("**Not proven.** Change what the findings say, and run it again.")
	default:
		line("**Not proven.** As it is, use it for no lease:\n")
	}
	for _, v := range p.Broken {
		line("- %s", cell(v))
	}
	line("\n| | |\n|---|---|\n| Checks of a store: kept, not for this store | %d, %d |", p.Kept, p.Skipped)
	line("| Leases in %v of competition, TTL %v | %d |\n| guardctl | %s |", p.Time, p.TTL, p.Grants, p.Guardctl)
	for _, f := range p.Findings {
		line("| %s %s | %s |", f.Severity, f.Name, cell(f.Text))
	}
}

// clean deletes the keys of this run.
func (p *prover) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*p.cmd.Duration("timeout"))
	defer cancel()
	l, end, err := open(p.cmd)
	if err != nil {
		return err
	}
	defer end()
	if !isRedis(p.cmd) {
		return withLocker(ctx, l, func(*guard.Guard) (err error) {
			for _, s := range p.spaces {
				err = errors.Join(err, s.Clear(ctx, l))
			}
			return err
		})
	}
	rdb, err := connect(p.cmd)
	if err != nil {
		return err
	}
	defer rdb.Close()
	clean := func(ctx context.Context, c *redis.Client) (err error) {
		keys := c.Scan(ctx, 0, p.prefix+"*", 1000).Iterator()
		for err == nil && keys.Next(ctx) {
			err = c.Del(ctx, keys.Val()).Err()
		}
		return errors.Join(err, keys.Err())
	}
	if c, ok := rdb.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, clean)
	}
	return clean(ctx, rdb.(*redis.Client))
}
