package ctl

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

// proof is the report of prove. It has nothing that must stay secret.
type proof struct {
	OK       bool            `json:"ok"`
	Violated []*violation    `json:"violated,omitempty"`
	Date     time.Time       `json:"date"`
	Guardctl string          `json:"guardctl"`
	Go       string          `json:"go"`
	Server   server          `json:"server"`
	TTL      time.Duration   `json:"ttl_ns"`
	Time     time.Duration   `json:"time_ns"` // as asked for
	Checks   int             `json:"checks"`
	Findings []guard.Finding `json:"findings,omitempty"`
	Storm    stormed         `json:"storm"`
	Measured measured        `json:"measured"`
	Failover *failover       `json:"failover,omitempty"` // nil unless asked for
	Left     string          `json:"keys_left,omitempty"`
}

// server is what a server says about itself.
type server struct {
	Versions  []string `json:"versions,omitempty"`
	Mode      string   `json:"mode"`
	TLS       bool     `json:"tls"`
	Primaries int      `json:"primaries"`
	Replicas  string   `json:"replicas_each,omitempty"`
	MaxMemory string   `json:"maxmemory,omitempty"`
	Policy    string   `json:"maxmemory_policy,omitempty"`
}

// read reads the INFO of a primary.
func (s *server) read(info map[string]string) {
	for _, name := range []string{"redis", "valkey", "garnet", "dragonfly", "kvrocks", "keydb"} {
		version := info[name+"_version"]
		if v := name + " " + version; version != "" && !slices.Contains(s.Versions, v) {
			s.Versions = append(s.Versions, v)
		}
	}
	s.Replicas, s.MaxMemory, s.Policy = info["connected_slaves"], info["maxmemory"], info["maxmemory_policy"]
}

type stormed struct {
	Took     time.Duration `json:"took_ns"`
	Guards   int           `json:"guards"`
	Callers  int           `json:"callers"`
	Turns    int           `json:"turns"`
	Handed   int           `json:"hand_overs"`
	Failed   int           `json:"calls_failed"`
	Failure  string        `json:"first_failure,omitempty"`
	Lost     int           `json:"leases_lost"`
	Forgot   int           `json:"leases_forgotten"`
	Changed  bool          `json:"primary_changed"`
	LongFree time.Duration `json:"longest_free_ns"`
	Silence  time.Duration `json:"longest_silence_ns"`
}

// measured has zeros for what could not be measured.
type measured struct {
	RoundTrip spread `json:"round_trip"`
	Message   spread `json:"message"`
	Script    spread `json:"script"`
	HandOver  spread `json:"hand_over"`
}

type failover struct {
	Seen       bool          `json:"seen"`
	Gap        time.Duration `json:"gap_ns"`
	LeasesLost int           `json:"leases_lost"`
	TokensLost int           `json:"tokens_lost"`
}

func newProof(cmd *cli.Command) *proof {
	p := &proof{
		Date: time.Now().UTC().Truncate(time.Second), Guardctl: version(), Go: runtime.Version(),
		TTL: cmd.Duration("ttl"), Time: cmd.Duration("time"),
		Server: server{Mode: "one server, or an endpoint", TLS: strings.HasPrefix(cmd.String("url"), "rediss:")},
	}
	switch {
	case cmd.Bool("cluster"):
		p.Server.Mode = "Cluster"
	case cmd.String("sentinel") != "":
		p.Server.Mode = "Sentinel"
	}
	if cmd.Bool("failover") {
		p.Failover = &failover{}
	}
	return p
}

// refuses reports whether a finding must be changed.
func (p *proof) refuses() bool {
	return slices.ContainsFunc(p.Findings, func(f guard.Finding) bool { return f.Severity == guard.Refuse })
}

// judged takes over what the court has seen.
func (p *proof) judged(c *court, took time.Duration) {
	for _, f := range p.Findings {
		if f.Severity == guard.Refuse {
			c.violate(badCheck, "%s: %s", f.Name, f.Text)
		}
	}
	p.Storm = stormed{
		Took: took, Guards: stormGuards, Callers: stormGuards * len(roles(p.TTL)), Turns: c.turns, Handed: len(c.pace),
		Failed: c.failed, Failure: c.failure, Lost: c.lost, Forgot: c.forgot, Changed: c.changed,
		LongFree: c.free, Silence: c.silence,
	}
	p.Measured.HandOver = newSpread(c.pace)
	if p.Failover != nil {
		*p.Failover = failover{Seen: c.changed, Gap: c.free, LeasesLost: c.lost, TokensLost: c.count(badToken)}
	}
	p.Violated = c.violated
	p.OK = len(c.violated) == 0 && (p.Failover == nil || p.Failover.Seen)
}

// write writes the report. It returns an error unless all is well.
func (p *proof) write(out io.Writer, asJSON bool) error {
	if asJSON {
		if err := writeJSON(out, p); err != nil {
			return err
		}
	} else {
		p.markdown(out)
	}
	switch {
	case len(p.Violated) > 0:
		return fmt.Errorf("not proven: %d kinds of violation, see the report", len(p.Violated))
	case !p.OK:
		return fmt.Errorf("not proven: no failover was seen in %v", proveMost)
	}
	return nil
}

// meaning says what a kind of violation is.
var meaning = map[string]string{
	badCheck:   "A finding of guardctl check refuses the server.",
	badOverlap: "Two had the key at once.",
	badPermits: "More had the key than there are permits.",
	badToken:   "A fencing token came twice or went down.",
	badLease:   "The server ended leases before their TTL.",
	badWakeUp:  "Somebody waited for a free key.",
	badNothing: "No lease can be had.",
}

// advice returns what to do about a kind of violation.
func (p *proof) advice(kind string) string {
	switch {
	case kind == badCheck:
		return "Change what the finding says."
	case kind == badWakeUp:
		return "Look at the CPU of both machines, run again, and send the report."
	case kind == badNothing:
		return "See the first failure under The storm."
	case p.Storm.Changed:
		return "The failover has lost writes, as one does that does not wait for its replicas. Protect data with " +
			"fencing tokens, take redislocker.WithReplicas or a quorum, or accept it: docs/choosing.md, One server, " +
			"a failover, or a quorum."
	}
	return "The server drops keys (eviction, or a failover that nobody saw) or runs scripts in parts. Change that: " +
		"as it is, use it for no lease."
}

func (p *proof) markdown(out io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	s := p.Server
	line("# guardctl prove: %s, %s\n", cmp.Or(strings.Join(s.Versions, ", "), "a server that tells no version"),
		p.Date.Format("2006-01-02 15:04 MST"))
	p.verdict(line)
	if p.Left != "" {
		line("\nKeys could not be deleted. Delete those that begin with `%s`.", strings.TrimSuffix(p.Left, "*"))
	}
	line("\n## Server\n\n| | |\n|---|---|")
	line("| Topology | %s, primaries: %d, replicas each: %s, TLS: %v |", s.Mode, s.Primaries,
		cmp.Or(s.Replicas, "unknown"), s.TLS)
	line("| maxmemory (0: no limit), policy | %s, %s |", cmp.Or(s.MaxMemory, "unknown"), cmp.Or(s.Policy, "unknown"))
	line("| Tools | guardctl %s, %s |", p.Guardctl, p.Go)
	line("\n## What guardctl check says, asked %d times\n", p.Checks)
	for _, f := range p.Findings {
		line("- %s %s: %s", f.Severity, f.Name, cell(f.Text))
	}
	if len(p.Findings) == 0 {
		line("No finding.")
	}
	p.numbers(line)
}

// verdict writes the result, and what to do.
func (p *proof) verdict(line func(format string, args ...any)) {
	switch {
	case len(p.Violated) > 0:
		line("**Not proven.** Leases are not safe, or cannot be had, on this server as it is set up:\n")
		line("| Violated | Times | First | Meaning |\n|---|---|---|---|")
		var todo []string
		for _, v := range p.Violated {
			line("| %s | %d | %s | %s |", v.Kind, v.Count, cell(v.First), meaning[v.Kind])
			if a := p.advice(v.Kind); !slices.Contains(todo, a) {
				todo = append(todo, a)
			}
		}
		line("\nWhat to do:\n\n- %s\n- Run guardctl prove again.", strings.Join(todo, "\n- "))
	case !p.OK:
		line("**Not proven.** No failover was seen: start again, and trigger one while the storm is on.")
	default:
		line("**Proven: nothing was violated.** A storm shows faults, not their absence. What to do next:\n")
		if p.Failover == nil {
			line("- Run it again with --failover. This run says nothing about what a failover loses.")
		}
		line("- Run it again after an upgrade, or a change of settings or of the plan.")
		line("- Send this report to https://github.com/go-lockguard/guard/issues, for the table of docs/servers.md.")
	}
}

// numbers writes what was counted and measured, and what it should be.
func (p *proof) numbers(line func(format string, args ...any)) {
	s, m := p.Storm, p.Measured
	row := func(name string, value, should any) { line("| %s | %v | %v |", name, value, should) }
	pair := func(a, b any) string { return fmt.Sprintf("%v, %v", a, b) }
	line("\n## The storm\n\n| | | Should be |\n|---|---|---|")
	row("Duration, TTL of the leases", pair(s.Took.Round(100*time.Millisecond), p.TTL), "the TTL of your services")
	row("Clients, each like a process of a service; callers in all", pair(s.Guards, s.Callers), "")
	row("Leases that callers had, of them handed over by another client", pair(s.Turns, s.Handed), "above 0")
	row("Calls that failed", strings.TrimSpace(fmt.Sprint(s.Failed, " ", cell(s.Failure))), "0, a few in a failover")
	row("Leases lost, of them ended by the server before their time", pair(s.Lost, s.Forgot),
		"0, 0. The rest had no answer in time: too slow for the TTL")
	row("The primary changed", s.Changed, "true only if you did that")
	row("Longest time for which the server was silent", short(s.Silence), fmt.Sprint("far below ", p.TTL/2))
	row("Longest time for which a key was free while somebody waited", short(s.LongFree),
		fmt.Sprint("below ", freeMost, ", in a failover longer by it and by the TTL"))
	line("\n## Measured\n\n| | Median | 99 %% |\n|---|---|---|")
	for _, of := range []struct {
		name string
		took spread
	}{
		{"Round trip", m.RoundTrip},
		{"A message, from PUBLISH to its arrival", m.Message},
		{"A script of two commands, in the server", m.Script},
		{"A hand-over, from the end of one lease to the next", m.HandOver},
	} {
		if of.took == (spread{}) {
			row(of.name, "not measured", "")
			continue
		}
		row(of.name, short(of.took.Median), short(of.took.P99))
	}
	if f := p.Failover; f != nil && f.Seen {
		line("\n## Failover\n\n| | | Should be |\n|---|---|---|")
		row("Gap: the longest time for which a key that was wanted had nobody", short(f.Gap), "below your MaxWait")
		row("Leases lost", f.LeasesLost, 0)
		row("Tokens lost: given again", f.TokensLost, 0)
	}
}

func short(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Microsecond)
}

// cell returns text that cannot end its cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(printable(strings.ReplaceAll(text, "\n", "; ")), "|", `\|`)
}
