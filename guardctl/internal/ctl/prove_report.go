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

// advice says what a kind of violation means, and what to do.
var advice = map[string]string{
	badCheck: "Change what the finding says.",
	badOverlap: "Two had the key at once. The server forgets keys (eviction, a failover) or runs scripts in " +
		"parts: do not use it for leases as it is.",
	badPermits: "More had the key than there are permits: as for overlap.",
	badToken:   "A fencing token came twice or went down: the server forgets writes, as for overlap.",
	badLease:   "The server forgets keys before their TTL, as for overlap.",
	badWakeUp:  "Somebody waited for a free key: look at the CPU of both machines, run again, and send the report.",
	badNothing: "See the first failure under The storm.",
}

func (p *proof) markdown(out io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	s := p.Server
	line("# guardctl prove: %s, %s\n", cmp.Or(strings.Join(s.Versions, ", "), "a server that tells no version"),
		p.Date.Format("2006-01-02 15:04 MST"))
	switch {
	case len(p.Violated) > 0:
		line("**Not proven.** Leases are not safe, or cannot be had, on this server as it is set up:\n")
		line("| Violated | Times | First | What to do |\n|---|---|---|---|")
		for _, v := range p.Violated {
			line("| %s | %d | %s | %s |", v.Kind, v.Count, cell(v.First), advice[v.Kind])
		}
		line("\nThen run guardctl prove again.")
	case !p.OK:
		line("**Not proven.** No failover was seen: start again, and trigger one while the storm is on.")
	default:
		line("**Proven: nothing was violated.** A storm shows faults, not their absence: it says nothing about " +
			"settings that change later, nor about failovers unless one is below.")
	}
	if p.Left != "" {
		line("\nKeys could not be deleted. They begin with `%s`.", p.Left)
	}
	line("\n## Server\n\n| | |\n|---|---|")
	line("| Topology | %s, primaries: %d, replicas each: %s, TLS: %v |", s.Mode, s.Primaries,
		cmp.Or(s.Replicas, "unknown"), s.TLS)
	line("| maxmemory, policy | %s, %s |", cmp.Or(s.MaxMemory, "unknown"), cmp.Or(s.Policy, "unknown"))
	line("| Tools | guardctl %s, %s |", p.Guardctl, p.Go)
	line("\n## Check, %d times\n", p.Checks)
	for _, f := range p.Findings {
		line("- %s %s: %s", f.Severity, f.Name, cell(f.Text))
	}
	if len(p.Findings) == 0 {
		line("No finding.")
	}
	p.numbers(line)
}

// numbers writes what was counted and measured.
func (p *proof) numbers(line func(format string, args ...any)) {
	s, m := p.Storm, p.Measured
	line("\n## The storm\n\n| | |\n|---|---|")
	line("| Time, TTL | %v, %v |", s.Took.Round(100*time.Millisecond), p.TTL)
	line("| Guards with a client of their own, callers | %d, %d |", s.Guards, s.Callers)
	line("| Turns, hand-overs to another guard | %d, %d |", s.Turns, s.Handed)
	line("| Calls without an answer | %d %s |", s.Failed, cell(s.Failure))
	line("| Leases lost, of them forgotten by the server | %d, %d |", s.Lost, s.Forgot)
	line("| The primary changed | %v |", s.Changed)
	line("| Longest time for which the server was silent | %v |", short(s.Silence))
	line("| Longest time for which a key was free while somebody waited | %v |", short(s.LongFree))
	line("\n## Measured\n\n| | Median | 99 %% |\n|---|---|---|")
	for _, row := range []struct {
		name string
		took spread
	}{
		{"Round trip", m.RoundTrip},
		{"A message, from PUBLISH to its arrival", m.Message},
		{"A script of two commands, in the server", m.Script},
		{"A hand-over, from the end of a turn to the next", m.HandOver},
	} {
		if row.took == (spread{}) {
			line("| %s | not measured | |", row.name)
			continue
		}
		line("| %s | %v | %v |", row.name, short(row.took.Median), short(row.took.P99))
	}
	if f := p.Failover; f != nil && f.Seen {
		line("\n## Failover\n\n| | |\n|---|---|")
		line("| Gap: the longest time for which a key that was wanted had nobody | %v |", short(f.Gap))
		line("| Leases lost | %d |", f.LeasesLost)
		line("| Tokens lost: given again | %d |", f.TokensLost)
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
