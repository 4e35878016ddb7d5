package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// result is what a sale came to, and the JSON object of -json.
type result struct {
	setting
	Redis         string `json:"redis"`
	EmbeddedRedis bool   `json:"embedded_redis"` // then the rates are not a measurement
	replicated    bool   // a failover may take back what a page has shown
	counts
	pace
	reach
	twice
	views
}

// pace is how fast it went.
type pace struct {
	Seconds float64 `json:"seconds"`
	RPS     float64 `json:"rps"`
	WaitP50 float64 `json:"wait_p50_ms"`
	WaitP99 float64 `json:"wait_p99_ms"`
	HoldP50 float64 `json:"hold_p50_ms"`
	HoldP99 float64 `json:"hold_p99_ms"`
}

// broken names what must hold under a lock and did not. Without one nothing is
// promised.
func (r result) broken() (faults []string) {
	if !r.Mode.Locked() {
		return nil
	}
	fault := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	fault(r.Reached == 0, "no request reached the handler")
	fault(r.Reached > 0 && r.Failed == r.Reached, "all requests failed in the handler")
	fault(r.Sold != r.due(), "%d sold, want %d", r.Sold, r.due())
	fault(r.Orders != r.Sold, "%d orders for %d sold", r.Orders, r.Sold)
	fault(r.Oversold != 0, "%d oversold", r.Oversold)
	fault(r.OrderedTwice != 0 || r.Contradicted != 0, "%d ordered twice, %d contradicted", r.OrderedTwice,
		r.Contradicted)
	fault(r.LostUpdates != 0, "%d lost updates", r.LostUpdates)
	fault(r.OddViews != 0 && !r.replicated, "%d page views beside a sale", r.OddViews)
	return faults
}

// due is how many must have been sold: who was told of an error, as when Redis
// failed over, has bought nothing.
func (r result) due() int { return min(r.Stock, r.Reached-r.Failed) }

// printScene says who is there, so that one of them can be killed.
func printScene(con *console, s *sale) {
	con.printf("%s  \tmode %s, style %s, Redis %s, %d buyers, %s requests for %s items\n",
		con.paint(bold, "flash sale"), s.cfg.Mode, s.cfg.Style, s.store.name, s.cfg.Buyers,
		thousands(s.cfg.Requests), thousands(s.cfg.Stock))
	for _, in := range s.fleet {
		con.printf("  %-7s%s  pid %d\n", in.name, in.url, in.pid())
	}
}

// printLogs shows who died and what the instances logged last, for a sale that
// went wrong.
func printLogs(con *console, fleet []*instance) {
	for _, in := range fleet {
		if in.lost {
			con.printf("  %s died: %v\n", in.name, in.cmd.ProcessState)
		}
		if text := strings.TrimSpace(string(in.log)); text != "" {
			con.raw("  %s logged:\n    %s\n", in.name, strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
}

func printReport(con *console, r result) {
	row := func(what string, n int, color, note string) {
		figure := con.paint(color, fmt.Sprintf("%8s", thousands(n)))
		con.printf("  %-14s %s   \t%s\n", what, figure, con.paint(dim, note))
	}
	count := func(what string, n int, bad bool, note string) {
		color := green
		if bad {
			color = red
		}
		row(what, n, color, note)
	}
	con.printf("\n")
	row("requests", r.Requests, "", fmt.Sprintf("in %.2f s, %.0f/s%s", r.Seconds, r.RPS, r.caveat()))
	row("stock", r.Stock, "", "")
	count("sold", r.Sold, r.Sold != r.due(), r.soldNote())
	row("refused", r.Refused, "", r.reasons())
	count("errors", r.Errors, r.Errors > 0, r.complaint)
	con.printf("\n")
	count("oversold", r.Oversold, r.Oversold > 0, "orders beyond the stock")
	count("lost updates", r.LostUpdates, r.LostUpdates != 0, "orders - (stock before - stock after)")
	count("late writes", r.LateWrites, false, "refused by their fencing token")
	if r.SentTwice > 0 {
		count("ordered twice", r.OrderedTwice, r.OrderedTwice > 0,
			fmt.Sprintf("of %s that were sent twice, %d of them with two different answers", thousands(r.SentTwice),
				r.Contradicted))
	}
	if r.Views > 0 {
		count("odd page views", r.OddViews, r.OddViews > 0,
			fmt.Sprintf("of %s: stock and orders that do not add up", thousands(r.Views)))
	}
	con.printf("\n")
	if r.Mode.Locked() {
		con.printf("  %-14s \tp50 %8.1f ms   p99 %8.1f ms\n", "wait for key", r.WaitP50, r.WaitP99)
		con.printf("  %-14s \tp50 %8.1f ms   p99 %8.1f ms   %s\n\n", "hold", r.HoldP50, r.HoldP99,
			con.paint(dim, r.holdNote()))
	}
	con.printf("%s\n", r.verdict(con))
}

// caveat belongs to every rate on the embedded Redis.
func (r result) caveat() string {
	if r.EmbeddedRedis {
		return " (embedded Redis: not a measurement)"
	}
	return ""
}

func (r result) soldNote() string {
	note := thousands(r.Orders) + " orders in the book"
	if r.settled > 0 {
		note += fmt.Sprintf(", %d of them found there only: the answer got lost", r.settled)
	}
	return note
}

// holdNote says why holds are short in a sale whose later buyers found nothing
// to buy.
func (r result) holdNote() string {
	if r.RefusedByReason[shop.CodeSoldOut] == 0 {
		return ""
	}
	return "short once it is sold out"
}

// reasons lists why buyers were refused, the most frequent reason first.
func (r result) reasons() string {
	var parts []string
	for code := range r.RefusedByReason {
		parts = append(parts, code)
	}
	slices.SortFunc(parts, func(a, b string) int { return r.RefusedByReason[b] - r.RefusedByReason[a] })
	for i, code := range parts {
		parts[i] = code + " " + thousands(r.RefusedByReason[code])
	}
	return strings.Join(parts, ", ")
}

func (r result) verdict(con *console) string {
	if faults := r.broken(); len(faults) > 0 {
		return con.paint(red, "FAIL") + "  " + strings.Join(faults, ", ")
	}
	switch {
	case r.Mode.Locked():
		return con.paint(green, "OK") + "  nothing was sold twice, and no update was lost"
	case r.Mode == shop.ModeAtomic:
		return "Nothing to lock: the whole step is one script. It could not ask for the price."
	case r.Oversold > 0 || r.LostUpdates > 0:
		return con.paint(red, "This is what happens without a lock.") + " Try -mode lock or -mode fence."
	}
	return "No harm done, by luck: nothing kept two instances apart."
}
