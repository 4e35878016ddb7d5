package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/lab/bench/internal/host"
)

// results is a whole run, as -json prints it.
type results struct {
	Date       time.Time         `json:"date"`
	Go         string            `json:"go"`
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	CPUs       int               `json:"cpus"`
	Redis      string            `json:"redis"`
	Versions   []string          `json:"versions"`
	Settings   map[string]string `json:"settings"`
	Quick      bool              `json:"quick"`
	Rounds     int               `json:"rounds"`
	Runs       []run             `json:"runs"`
	CDFShares  []float64         `json:"cdf_shares"`
	Bars       []verdict         `json:"bars"`
	Violations []string          `json:"violations"`
	Failed     []string          `json:"failed"` // measurements without a result
}

// runAll measures everything that cfg asks for, round by round, and reports its
// progress.
func runAll(ctx context.Context, cfg config, progress io.Writer) (*results, error) {
	dir, err := os.MkdirTemp("", "guard-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	srv, err := host.StartServer(dir)
	if err != nil {
		return nil, err
	}
	defer srv.Stop()

	res := describe(ctx, cfg, srv)
	b := &bench{srv: srv, dir: dir, plan: cfg.plan, before: cfg.before}
	for b.round = 1; b.round <= cfg.rounds; b.round++ {
		for _, w := range cfg.workloads {
			for _, lib := range turn(librariesOf(w, cfg.libs, b.round), b.round) {
				runs, err := w.measure(b, call{ctx: ctx, workload: w.name, library: lib})
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				where := fmt.Sprintf("round %d, %s, %s: ", b.round, w.name, lib)
				fmt.Fprintln(progress, where+res.take(runs, err, where))
			}
		}
	}
	res.Bars = judge(&data{res.Runs, res.Rounds})
	return res, nil
}

// take keeps the result of a measurement and prints it. If the measurement
// failed it keeps the failure, because the other measurements are still useful.
func (r *results) take(runs []run, err error, where string) string {
	switch {
	case errors.Is(err, errViolation):
		r.Violations = append(r.Violations, where+err.Error())
	case err != nil:
		r.Failed = append(r.Failed, where+err.Error())
	default:
		r.Runs = append(r.Runs, runs...)
		return headline(runs[len(runs)-1])
	}
	return err.Error()
}

// librariesOf returns the libraries to measure in this round of a workload.
func librariesOf(w workload, chosen []string, round int) (libs []string) {
	for _, l := range append([]string{ours, before}, w.libs...) {
		own := l == ours || l == before && !w.own
		if slices.Contains(chosen, l) && (own || !w.once || round == 1) {
			libs = append(libs, l)
		}
	}
	return libs
}

// turn rotates libs by one place a round. So no library is always the first, or
// always after the same one.
func turn(libs []string, round int) []string {
	if len(libs) == 0 {
		return nil
	}
	at := (round - 1) % len(libs)
	return slices.Concat(libs[at:], libs[:at])
}

func headline(r run) string {
	var parts []string
	for _, c := range columns(r.Workload) {
		if v, ok := r.Values[c]; ok {
			parts = append(parts, c+" "+number(v))
		}
	}
	return strings.Join(parts, ", ")
}

func describe(ctx context.Context, cfg config, srv *host.Server) *results {
	r := &results{
		Date: time.Now(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Redis: srv.Version(ctx), Versions: versions(), Settings: map[string]string{},
		Quick: cfg.quick, Rounds: cfg.rounds, CDFShares: cdfShares, Violations: []string{}, Failed: []string{},
	}
	for _, l := range libraries {
		r.Settings[l.name] = l.setting
	}
	return r
}

// versions returns the versions of the libraries in this program.
func versions() (vs []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		for _, name := range []string{"/redislock", "/redsync/v4", "/rueidis", "/go-redis/v9"} {
			if strings.HasSuffix(m.Path, name) {
				vs = append(vs, m.Path+" "+m.Version)
			}
		}
	}
	return vs
}
