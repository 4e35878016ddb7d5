package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// result is what a sale came to, and the JSON object of -json.
type result struct {
	Mode        shop.Mode  `json:"mode"`
	Style       shop.Style `json:"style"`
	Redis       string     `json:"redis"`
	Instances   int        `json:"instances"`
	Requests    int        `json:"requests"`
	Stock       int        `json:"stock"`
	Sold        int        `json:"sold"`
	Oversold    int        `json:"oversold"`
	LostUpdates int        `json:"lost_updates"` // orders - (stock before - stock after)
	Refused     int        `json:"refused"`
	LateWrites  int        `json:"late_writes_refused"`
	Errors      int        `json:"errors"` // requests without a clear answer, and without an order
	Seconds     float64    `json:"seconds"`
	RPS         float64    `json:"rps"`
	WaitP50     float64    `json:"wait_p50_ms"`
	WaitP99     float64    `json:"wait_p99_ms"`
	HoldP50     float64    `json:"hold_p50_ms"`
	HoldP99     float64    `json:"hold_p99_ms"`

	Orders          int            `json:"orders"`
	Reached         int            `json:"reached_handler"`
	Failed          int            `json:"failed_in_handler"` // of these, and not in the book
	RefusedByReason map[string]int `json:"refused_by_reason"`
	LeasesLost      int            `json:"leases_lost"`
	EmbeddedRedis   bool           `json:"embedded_redis"` // then the rates are not a measurement

	SentTwice    int `json:"sent_twice"`
	OrderedTwice int `json:"ordered_twice"`
	Contradicted int `json:"contradicted"` // sent twice, with two answers that cannot both be true

	Views    int `json:"page_views"`
	OddViews int `json:"odd_page_views"` // whose stock and orders do not add up

	Left             int    `json:"-"` // what Redis says is on the shelf
	Settled          int    `json:"-"` // sold, but known from the order book only
	InstancesMissing int    `json:"-"` // whose measurements are lost with them
	Complaint        string `json:"-"` // one of the errors
	replicated       bool   // a failover may take back what a page has shown
}

// broken names what must hold under a lock and did not. Without one nothing is
// promised.
func (r result) broken() (faults []string) {
	if !r.Mode.Locked() {
		return nil
	}
	switch r.Reached {
	case 0:
		faults = append(faults, "no request reached the handler")
	case r.Failed:
		faults = append(faults, "all requests failed in the handler")
	}
	if want := r.due(); r.Sold != want {
		faults = append(faults, fmt.Sprintf("%d sold, want %d", r.Sold, want))
	}
	if r.Orders != r.Sold {
		faults = append(faults, fmt.Sprintf("%d orders for %d sold", r.Orders, r.Sold))
	}
	if r.Oversold != 0 {
		faults = append(faults, fmt.Sprintf("%d oversold", r.Oversold))
	}
	if r.OrderedTwice != 0 || r.Contradicted != 0 {
		faults = append(faults, fmt.Sprintf("%d ordered twice, %d contradicted", r.OrderedTwice, r.Contradicted))
	}
	if r.LostUpdates != 0 {
		faults = append(faults, fmt.Sprintf("%d lost updates", r.LostUpdates))
	}
	if r.OddViews != 0 && !r.replicated {
		faults = append(faults, fmt.Sprintf("%d page views beside a sale", r.OddViews))
	}
	return faults
}

// due is how many must have been sold: who was told of an error, as when Redis
// failed over, has bought nothing.
func (r result) due() int { return min(r.Stock, r.Reached-r.Failed) }

// printScene says who is there, so that one of them can be killed.
func printScene(con *console, s *sale) {
	con.printf("%s  \tmode %s, style %s, Redis %s, %d buyers, %s requests for %s items\n",
		con.paint(bold, "flash sale"), s.cfg.mode, s.cfg.style, s.store.name, s.cfg.concurrency,
		thousands(s.cfg.requests), thousands(s.cfg.stock))
	for _, in := range s.fleet {
		con.printf("  %-7s%s  pid %d\n", in.name, in.url, in.pid())
	}
}

// printLogs shows who died and what the instances logged last, for a sale that
// went wrong.
func printLogs(con *console, fleet []*instance) {
	for _, in := range fleet {
		select {
		case <-in.gone:
			con.printf("  %s died: %v\n", in.name, in.cmd.ProcessState)
		default:
		}
		if text := in.log.text(); text != "" {
			con.raw("  %s logged:\n    %s\n", in.name, strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
}

func printReport(con *console, r result) {
	line := func(what, n, note string) {
		if note != "" {
			note = "   \t" + con.paint(dim, note)
		}
		con.printf("  %-14s %8s%s\n", what, n, note)
	}
	count := func(what string, n int, bad bool, note string) {
		color := green
		if bad {
			color = red
		}
		con.printf("  %-14s %s   \t%s\n", what,
			con.paint(color, fmt.Sprintf("%8s", thousands(n))), con.paint(dim, note))
	}

	con.printf("\n")
	line("requests", thousands(r.Requests), fmt.Sprintf("in %.2f s, %.0f/s%s", r.Seconds, r.RPS, r.caveat()))
	line("stock", thousands(r.Stock), "")
	count("sold", r.Sold, r.Sold != r.due(), r.soldNote())
	line("refused", thousands(r.Refused), r.reasons())
	count("errors", r.Errors, r.Errors > 0, r.Complaint)
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
		con.printf("  %-14s \tp50 %8.1f ms   p99 %8.1f ms%s\n", "wait for key", r.WaitP50, r.WaitP99, r.missing())
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
	if r.Settled > 0 {
		note += fmt.Sprintf(", %d of them found there only: the answer got lost", r.Settled)
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

func (r result) missing() string {
	if r.InstancesMissing == 0 {
		return ""
	}
	return fmt.Sprintf("   without %d dead instance(s)", r.InstancesMissing)
}

// reasons lists why buyers were refused, the most frequent reason first.
func (r result) reasons() string {
	var codes, parts []string
	for code := range r.RefusedByReason {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b string) int { return r.RefusedByReason[b] - r.RefusedByReason[a] })
	for _, code := range codes {
		parts = append(parts, fmt.Sprintf("%s %s", code, thousands(r.RefusedByReason[code])))
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
