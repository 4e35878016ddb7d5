package show

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// scene is an act as it is told: what is played, what must come of it, and what
// is said after it.
type scene struct {
	title   string
	mode    shop.Mode
	perform func(context.Context, *act) error
	must    func(result) []string // what did not go as told
	after   string
}

// scenes are the five acts.
var scenes = []scene{
	{
		title: "No lock", mode: shop.ModeNone, perform: sellAll,
		must: func(r result) []string { return unless(r.Oversold > 0, "nothing was oversold") },
	},
	{
		title: `A lock: lockmw.Key(g, "stock:{sku}") on the route`, mode: shop.ModeLock, perform: sellAll, must: allRight,
		after: "    Several instances, one # at a time.\n",
	},
	{
		title: "The lock, and a holder that is stopped past its TTL", mode: shop.ModeLock, perform: stopHolder,
		must: func(r result) []string {
			return append(unless(r.LostUpdates > 0, "no update was lost"),
				unless(r.LeasesLost > 0, "the holder's lease was not lost")...)
		},
		after: "\n    No lock service can prevent this: a lease ends by the clock, and a process that does not run " +
			"cannot look at a clock. The guard cancels the holder's context as soon as it runs again, which helps " +
			"all code that still looks. Here the last step ignores its context on purpose, to hit every time what " +
			"is rare otherwise: being stopped after the last look and before the write.\n",
	},
	{
		title: "The same, and the write carries the fencing token (guard.FencingToken)", mode: shop.ModeFence,
		perform: stopHolder,
		must: func(r result) []string {
			return append(allRight(r), unless(r.LateWrites > 0, "the late write was not refused")...)
		},
	},
	{
		title: "No lock and no price call: the whole step is one script", mode: shop.ModeAtomic, perform: sellAll,
		must: allRight,
		after: "    If your step fits one script or one UPDATE ... WHERE stock > 0, use that. The lock is for the " +
			"step that does not fit.\n",
	},
}

func unless(ok bool, otherwise string) []string {
	if ok {
		return nil
	}
	return []string{otherwise}
}

// allRight expects every item sold once.
func allRight(r result) []string {
	return append(
		unless(r.Oversold == 0 && r.LostUpdates == 0,
			fmt.Sprintf("%d oversold, %d lost updates", r.Oversold, r.LostUpdates)),
		unless(r.Sold == r.Stock && r.Orders == r.Stock, fmt.Sprintf("%d sold, %d orders", r.Sold, r.Orders))...)
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

// act is one sale of the story, seen by its audience.
type act struct {
	*sale
	con  *console // for colors
	tell func(text string)
}

func (a *act) says(format string, args ...any) { a.tell(fmt.Sprintf(format, args...)) }

// sellAll is an act in which nothing happens but the sale.
func sellAll(ctx context.Context, a *act) error {
	a.sell(ctx, 1, a.cfg.Requests, a.fleet)
	return ctx.Err()
}

// stopHolder is an act in which the first instance takes the lease, reads the
// stock and asks for the price; there it is stopped. Its lease expires, the
// others sell; then it goes on, gets its price and writes.
func stopHolder(ctx context.Context, a *act) error {
	holder, others := a.fleet[0], a.fleet[1:]
	asked, answerPrice := a.prices.hold("1")
	defer answerPrice()
	answered := make(chan answer, 1)
	go func() { answered <- a.buyers.one(ctx, "1", holder) }() // ends with the sale at the latest
	select {
	case <-asked:
	case early := <-answered:
		return fmt.Errorf("%s did not ask for the price: %s %s", holder.name, early.Code, early.Detail)
	case <-ctx.Done():
		return ctx.Err()
	}
	shop.Pause(ctx, 2*tellEvery) // so that the ledger has heard of the step before it is stopped
	if err := a.halt(holder); err != nil {
		return err
	}
	a.says("%s holds the lease and has read stock %d. It asks for the price, and is stopped (SIGSTOP).",
		holder.name, a.cfg.Stock)

	batch := a.cfg.Stock * 2 / 3
	a.sell(ctx, 2, batch, others)
	sold := a.ledger.counts().Sold
	if ctx.Err() != nil || sold == 0 {
		return errors.Join(ctx.Err(), errors.New("nobody sold while the holder was stopped"))
	}
	before, _, err := a.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	a.says("Its TTL has passed and the others have gone on: %d sold, stock %d.", sold, before)

	if err := a.resume(holder); err != nil {
		return err
	}
	answerPrice()
	late := <-answered
	a.ledger.heard(late)
	after, _, err := a.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	if late.Code == shop.CodeLateWrite {
		a.says("%s goes on (SIGCONT) and writes: %s, stock %d. Its token %d is lower than %d.", holder.name,
			a.con.paint(green, "late write refused"), after, late.Token, late.Newest)
	} else {
		a.says("%s goes on (SIGCONT) and writes: %s, stock %d is %d again.", holder.name,
			a.con.paint(red, "nothing stops it"), before, after)
	}
	a.sell(ctx, 2+batch, a.cfg.Requests-1-batch, a.fleet)
	return ctx.Err()
}

// tellStory plays all acts, and reports whether each went as told.
func tellStory(ctx context.Context, cfg config, con *console) (bool, error) {
	if !canStop {
		return false, errors.New("-story stops and continues processes, which this system cannot")
	}
	con.printOpening(sceneConfig(cfg, scenes[0]))
	var missed []string
	took := map[int]float64{}
	for i, sc := range scenes {
		n := i + 1
		con.printTitle(n, sc.title)
		res, err := con.playScene(ctx, sceneConfig(cfg, sc), sc)
		if err != nil {
			return false, err
		}
		if took[n] = res.Seconds; n == 5 {
			con.printf("    It took %.2f s, and act 2 %.2f s: most of that is the price call, which it leaves out%s.\n",
				took[5], took[2], res.caveat())
		}
		con.printf("%s", sc.after)
		for _, m := range sc.must(res) {
			missed = append(missed, fmt.Sprintf("  act %d: %s\n", n, m))
		}
	}
	if len(missed) > 0 {
		con.printf("\n%s\n%s", con.paint(red, "The story did not go as told:"), strings.Join(missed, ""))
	}
	return len(missed) == 0, nil
}

func (c *console) printOpening(cfg config) {
	c.printf("%s\n", c.paint(bold, "The flash sale in five acts"))
	c.printf("%d instances, each a process; %d items, %d requests from %d buyers; the price service takes %v; "+
		"TTL %v.\n", cfg.Instances, cfg.Stock, cfg.Requests, cfg.Buyers, cfg.Think, cfg.TTL)
	c.printf("One lane per instance:\n" +
		"  # in the step: stock read, price asked\n" +
		"  | sold by one script    . sold out\n" +
		"  z stopped               X late write\n")
	c.narrow()
}

// playScene opens a sale, lets the act perform, and shows what came of it.
func (c *console) playScene(ctx context.Context, cfg config, sc scene) (res result, err error) {
	s, err := openSale(ctx, cfg)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tell := func(text string) { c.tell(time.Since(s.ledger.began), text) }
	if err := sc.perform(ctx, &act{sale: s, con: c, tell: tell}); err != nil {
		return result{}, err
	}
	if res, err = s.result(ctx); err != nil {
		return result{}, err
	}
	c.printLanes(s.ledger.lanes, s.ledger.stretches())
	c.printHarm(res)
	return res, nil
}

func (c *console) printTitle(n int, title string) {
	c.printf("\n%s\n", c.paint(bold, fmt.Sprintf("%d  \t%s", n, title)))
}

// tell says what happens in an act, so long after its curtain rose.
func (c *console) tell(at time.Duration, text string) {
	c.printf("    %5d ms  \t%s\n", at.Milliseconds(), text)
}

func (c *console) printHarm(res result) {
	color := green
	if res.Oversold > 0 || res.LostUpdates > 0 {
		color = red
	}
	c.printf("    %d items, %d orders: %s\n", res.Stock, res.Orders,
		c.paint(color, fmt.Sprintf("oversold %d, lost updates %d", res.Oversold, res.LostUpdates)))
}

// Marks of the timeline, the more telling ones last: they win where several
// fall into one column.
const (
	markSoldOut = '.'
	markSold    = '|'
	markInStep  = '#'
	markHalted  = 'z'
	markLate    = 'X'
)

const markOrder = " .|#zX"

// timelineWidth is how wide a lane gets where there is room.
const timelineWidth = 64

const timelineMargin = 4 + 7 // left of a lane

// stretch is a time in µs in which an instance did something.
type stretch struct {
	lane     string
	from, to int64
	mark     byte
}

// stretches returns what the instances did, once they have ended. A step ends
// with its write: what follows is the way back.
func (l *ledger) stretches() (all []stretch) {
	for _, v := range l.visits {
		switch {
		case v.Code == shop.CodeSoldOut:
			all = append(all, stretch{v.Lane, v.Ended, v.Ended, markSoldOut})
		case v.Code == shop.CodeSold && v.Read == nil:
			all = append(all, stretch{v.Lane, v.Ended, v.Ended, markSold})
		case v.Held != 0:
			all = append(all, stretch{v.Lane, v.Held, cmp.Or(v.Wrote, v.Ended), markInStep})
		}
		if v.Lost != 0 {
			all = append(all, stretch{v.Lane, v.Ended, v.Ended, markLate})
		}
	}
	for _, m := range l.marks {
		all = append(all, stretch{m.Lane, m.From, m.To, markHalted})
	}
	return all
}

// printLanes draws one lane per instance.
func (c *console) printLanes(lanes []lane, all []stretch) {
	if len(all) == 0 {
		return
	}
	began, ended := all[0].from, all[0].to
	for _, s := range all {
		began, ended = min(began, s.from), max(ended, s.to)
	}
	width := max(1, min(timelineWidth, c.width-timelineMargin))
	for _, l := range lanes {
		c.printf("    %-7s%s\n", l.Name, c.paintLane(drawLane(l.Name, all, began, (ended-began)/int64(width)+1, width)))
	}
	c.printf("    %-7s0%*s\n", "", width-1, fmt.Sprintf("%d ms", (ended-began)/1000))
}

// drawLane draws one lane, so many µs a column. A stretch fills the columns
// whose middle it covers, so that steps that do not overlap in time never share
// a column; a moment is shown wherever it falls.
func drawLane(name string, all []stretch, began, step int64, width int) []byte {
	lane := bytes.Repeat([]byte{' '}, width)
	for _, s := range all {
		if s.lane != name {
			continue
		}
		from, to := s.from-began, s.to-began
		first, last := int((from+step/2)/step), int((to-step/2)/step)
		if s.from == s.to {
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
