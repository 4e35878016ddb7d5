package show

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// scene is an act: what is played, and what must come of it. The languages have
// its title (act1) and what is said after it (act1.after).
type scene struct {
	mode    shop.Mode
	perform func(context.Context, *sale) error
	must    func(result) []text // what did not go as told
}

// scenes are the five acts.
var scenes = []scene{
	{shop.ModeNone, sellAll, func(r result) []text { return unless(r.Oversold > 0, say("missed.oversold")) }},
	{shop.ModeLock, sellAll, result.faults},
	{shop.ModeLock, stopHolder, func(r result) []text {
		lost := unless(r.LostUpdates > 0, say("missed.updates"))
		return append(lost, unless(r.LeasesLost > 0, say("missed.lease"))...)
	}},
	{shop.ModeFence, stopHolder, func(r result) []text {
		return append(r.faults(), unless(r.LateWrites > 0, say("missed.late"))...)
	}},
	{shop.ModeAtomic, sellAll, result.faults},
}

func unless(ok bool, otherwise text) []text {
	if ok {
		return nil
	}
	return []text{otherwise}
}

// sceneConfig is the small sale of all acts, on the Redis of cfg.
func sceneConfig(cfg config, sc scene) config {
	cfg.Mode, cfg.Style, cfg.Instances = sc.mode, shop.StyleRoute, 4
	cfg.Stock, cfg.Requests, cfg.Buyers = 30, 90, 24
	cfg.Think, cfg.TTL, cfg.Wait = 10*time.Millisecond, time.Second, 10*time.Second
	if cfg.onPage() {
		cfg.Think = 60 * time.Millisecond // slow enough to be watched
	}
	cfg.Deaf = true
	return cfg
}

// sellAll is an act in which nothing happens but the sale.
func sellAll(ctx context.Context, s *sale) error {
	s.sell(ctx, 1, s.cfg.Requests, s.fleet)
	return ctx.Err()
}

// stopHolder is an act in which the first instance takes the lease, reads the
// stock and asks for the price; there it is stopped. Its lease expires, the
// others sell; then it goes on, gets its price and writes.
func stopHolder(ctx context.Context, s *sale) error {
	holder, others := s.fleet[0], s.fleet[1:]
	asked, answerPrice := s.hold("1")
	defer answerPrice()
	answered := make(chan answer, 1)
	go func() { answered <- s.one(ctx, "1", holder) }() // ends with the sale at the latest
	select {
	case <-asked:
	case early := <-answered:
		return fmt.Errorf("%s did not ask for the price: %s %s", holder.name, early.Code, early.Detail)
	case <-ctx.Done():
		return ctx.Err()
	}
	shop.Pause(ctx, 2*tellEvery) // so that the ledger has heard of the step before it is stopped
	if err := s.halt(holder); err != nil {
		return err
	}
	s.ledger.say("", "said.stopped", "name", holder.name, "stock", s.cfg.Stock)

	batch := s.cfg.Stock * 2 / 3
	s.sell(ctx, 2, batch, others)
	sold := s.ledger.counts().Sold
	if ctx.Err() != nil || sold == 0 {
		return errors.Join(ctx.Err(), errors.New("nobody sold while the holder was stopped"))
	}
	before, _, err := s.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	s.ledger.say("", "said.others", "sold", sold, "stock", before)

	if err := s.resume(holder); err != nil {
		return err
	}
	answerPrice()
	late := <-answered
	s.ledger.heard(late)
	after, _, err := s.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	if late.Code == shop.CodeLateWrite {
		s.ledger.say("good", "said.refused", "name", holder.name, "stock", after, "token", late.Token,
			"newest", late.Newest)
	} else {
		s.ledger.say("bad", "said.late", "name", holder.name, "before", before, "after", after)
	}
	s.sell(ctx, 2+batch, s.cfg.Requests-1-batch, s.fleet)
	return ctx.Err()
}

// tellStory plays all acts, and reports whether each went as told.
func tellStory(ctx context.Context, cfg config, con *console) (bool, error) {
	if !canStop {
		return false, say("error.nostory")
	}
	con.printOpening(sceneConfig(cfg, scenes[0]))
	var missed []string
	took := map[int]float64{}
	for i, sc := range scenes {
		n := i + 1
		con.printTitle(n)
		res, err := con.playScene(ctx, sceneConfig(cfg, sc), sc)
		if err != nil {
			return false, err
		}
		took[n] = res.Seconds
		con.printAfter(n, res, took)
		for _, m := range sc.must(res) {
			missed = append(missed, con.say("story.act", "act", n, "missed", m.in(con.lang)))
		}
	}
	if len(missed) > 0 {
		con.printf("\n%s\n%s", con.paint(red, con.say("story.missed")), strings.Join(missed, ""))
	}
	return len(missed) == 0, nil
}

func (c *console) printOpening(cfg config) {
	c.printf("%s\n", c.paint(bold, c.say("story.title")))
	c.printf("%s", c.say("story.opening", "instances", cfg.Instances, "stock", cfg.Stock, "requests", cfg.Requests,
		"buyers", cfg.Buyers, "think", cfg.Think, "ttl", cfg.TTL))
	c.narrow()
}

func (c *console) printTitle(n int) {
	c.printf("\n%s\n", c.paint(bold, fmt.Sprintf("%d  \t%s", n, c.say(fmt.Sprintf("act%d.story", n)))))
}

// playScene opens a sale, lets the act perform, and shows what came of it.
func (c *console) playScene(ctx context.Context, cfg config, sc scene) (res result, err error) {
	err = withSale(ctx, cfg, func(s *sale) (err error) {
		s.ledger.tell = c.tell
		if err = sc.perform(ctx, s); err != nil {
			return err
		}
		if res, err = s.result(ctx); err == nil {
			c.printLanes(s.ledger.lanes, s.ledger.stretches())
			c.printHarm(res)
		}
		return err
	})
	return res, err
}

// tell says what happens in an act.
func (c *console) tell(s said) {
	c.printf("    %5d ms  \t%s\n", s.AtMS, c.paint(map[string]string{"good": green, "bad": red}[s.Tone], s.in(c.lang)))
}

func (c *console) printHarm(res result) {
	color := map[bool]string{true: red, false: green}[res.Oversold > 0 || res.LostUpdates > 0]
	c.printf("    %s%s\n", c.say("story.orders", "stock", res.Stock, "orders", res.Orders),
		c.paint(color, c.say("story.harm", "oversold", res.Oversold, "lost", res.LostUpdates)))
}

// printAfter prints what is said after act n, for which took has the seconds of
// all acts so far.
func (c *console) printAfter(n int, res result, took map[int]float64) {
	c.printf("%s", c.say(fmt.Sprintf("act%d.after", n), "seconds", fmt.Sprintf("%.2f", took[n]),
		"lock", fmt.Sprintf("%.2f", took[2]), "caveat", c.caveat(res)))
}

// Marks of a lane, the more telling ones last: they win where several fall into
// one column.
const (
	markSoldOut = '.'
	markSold    = '|'
	markInStep  = '#'
	markHalted  = 'z'
	markLate    = 'X'
)

const markOrder = " .|~+#zX"

// Widths of a lane of the story: where there is room, and what is left of it.
const (
	timelineWidth  = 64
	timelineMargin = 4 + 7
)

// stretch is a time in µs in which an instance did something.
type stretch struct {
	from, to int64
	mark     byte
}

// stretches returns what the instances did, by their names, once they have
// ended. A step ends with its write: what follows is the way back.
func (l *ledger) stretches() map[string][]stretch {
	all := map[string][]stretch{}
	add := func(lane string, s stretch) { all[lane] = append(all[lane], s) }
	for _, v := range l.visits {
		switch {
		case v.Code == shop.CodeSoldOut:
			add(v.Lane, stretch{v.Ended, v.Ended, markSoldOut})
		case v.Code == shop.CodeSold && v.Read == nil:
			add(v.Lane, stretch{v.Ended, v.Ended, markSold})
		case v.Held != 0:
			add(v.Lane, stretch{v.Held, cmp.Or(v.Wrote, v.Ended), markInStep})
		}
		if v.Lost != 0 {
			add(v.Lane, stretch{v.Ended, v.Ended, markLate})
		}
	}
	for _, m := range l.marks {
		add(m.Lane, stretch{m.From, m.To, markHalted})
	}
	return all
}

// printLanes draws one lane per instance, over the time in which any did
// something.
func (c *console) printLanes(lanes []lane, all map[string][]stretch) {
	began, ended := int64(math.MaxInt64), int64(0)
	for _, some := range all {
		for _, s := range some {
			began, ended = min(began, s.from), max(ended, s.to)
		}
	}
	if ended == 0 {
		return
	}
	width := max(1, min(timelineWidth, c.width-timelineMargin))
	for _, l := range lanes {
		c.printf("    %-7s%s\n", l.Name, c.paintLane(drawLane(all[l.Name], began, (ended-began)/int64(width)+1, width)))
	}
	c.printf("    %-7s0%*s\n", "", width-1, fmt.Sprintf("%d ms", (ended-began)/1000))
}

// drawLane draws one lane, so many µs a column. A stretch fills the columns
// whose middle it covers, so that steps that do not overlap in time never share
// a column; a moment is shown wherever it falls.
func drawLane(all []stretch, began, step int64, width int) []byte {
	lane := bytes.Repeat([]byte{' '}, width)
	for _, s := range all {
		from, to := s.from-began, s.to-began
		first, last := int((from+step/2)/step), int((to-step/2)/step)
		if from == to {
			first, last = int(from/step), int(from/step)
		}
		for i := max(first, 0); i <= min(last, width-1); i++ {
			if strings.IndexByte(markOrder, s.mark) > strings.IndexByte(markOrder, lane[i]) {
				lane[i] = s.mark
			}
		}
	}
	return lane
}

// paintLane colors the marks of a lane.
func (c *console) paintLane(lane []byte) string {
	colors := map[byte]string{markInStep: green, markSold: green, markSoldOut: dim, markHalted: yellow, markLate: red}
	var b strings.Builder
	for _, mark := range lane {
		b.WriteString(c.paint(colors[mark], string(mark)))
	}
	return b.String()
}
