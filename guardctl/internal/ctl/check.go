package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

const checkTrips = 5

func (c *console) check() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "tell whether the server can serve leases: rights, eviction policy, round trip against the TTL",
		Description: `Asks what guard.Check asks, with this user's rights and from this machine: run it where the service runs. It takes a
lease of its own through its life, under a name that nobody uses. Exit status 1 if something must be changed, and 0 with
warnings.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{
				Name: "ttl", Value: 10 * time.Second,
				Usage: "the TTL of the services, see guard.WithTTL",
			},
			&cli.StringSliceFlag{
				Name:  "accept",
				Usage: "only warn of findings of this `name`, see guard.WithAcceptedFindings",
			},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 0); err != nil {
				return err
			}
			l, closeClient, err := open(cmd)
			if err != nil {
				return err
			}
			defer closeClient()
			accepted := cmd.StringSlice("accept")
			if err := known(l.Capabilities().Findings, accepted); err != nil {
				return err
			}
			return withLocker(ctx, l, func(g *guard.Guard) error { return c.examine(ctx, cmd, g) },
				guard.WithTTL(cmd.Duration("ttl")), guard.WithAcceptedFindings(accepted...))
		},
	}
}

// known returns an error for a name that is not one of names, those of all
// findings.
func known(names, accepted []string) error {
	for _, name := range accepted {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--accept knows no finding %q, only %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// health is the result of check as JSON.
type health struct {
	OK        bool            `json:"ok"`
	RoundTrip time.Duration   `json:"round_trip_ns,omitempty"`
	TTL       time.Duration   `json:"ttl_ns"`
	Findings  []guard.Finding `json:"findings,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func (c *console) examine(ctx context.Context, cmd *cli.Command, g *guard.Guard) error {
	ctx, cancel := limited(ctx, cmd)
	defer cancel()
	h := health{TTL: cmd.Duration("ttl")}
	trip, err := roundTrip(ctx, g)
	if err == nil {
		h.RoundTrip = trip
		h.Findings, err = g.Findings(ctx)
	}
	var refused []string
	for _, f := range h.Findings {
		if f.Severity == guard.Refuse {
			refused = append(refused, f.Text)
		}
	}
	if err != nil {
		h.Error = err.Error()
	} else if len(refused) > 0 {
		h.Error = strings.Join(refused, "\n")
		err = fmt.Errorf("%d to be changed, or accepted with --accept", len(refused))
	}
	h.OK = err == nil
	if cmd.Bool("json") {
		return errors.Join(writeJSON(c.out, h), err)
	}
	if trip > 0 {
		fmt.Fprintf(c.out, "round trip  %v, %.2f %% of a TTL of %v (at most 10 %%)\n",
			trip.Round(time.Microsecond), 100*trip.Seconds()/h.TTL.Seconds(), h.TTL)
	}
	for _, f := range h.Findings {
		fmt.Fprintf(c.out, "%-10s  %s: %s\n", f.Severity, f.Name, printable(f.Text))
	}
	if err == nil && len(h.Findings) == 0 {
		fmt.Fprintln(c.out, "ok          reachable, all rights, no eviction")
	} else if err == nil {
		fmt.Fprintln(c.out, "ok          with warnings")
	}
	return err
}

// roundTrip returns the shortest of a few round trips.
func roundTrip(ctx context.Context, g *guard.Guard) (best time.Duration, err error) {
	for range checkTrips {
		start := time.Now()
		if _, err := g.Inspect(ctx, "guardctl:round trip"); err != nil {
			return 0, err
		}
		if d := time.Since(start); best == 0 || d < best {
			best = d
		}
	}
	return best, nil
}
