package show

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// story plays the same small sale five times.
type story struct {
	con    *console
	cfg    config
	missed []string // what did not go as told
}

// storyConfig is the small sale, on the Redis of cfg.
func storyConfig(cfg config) config {
	cfg.stock, cfg.requests, cfg.concurrency = 30, 90, 24
	cfg.think, cfg.ttl, cfg.wait = 10*time.Millisecond, time.Second, 10*time.Second
	cfg.deaf = true
	return cfg
}

// legend explains the lanes.
const legend = "One lane per instance:\n" +
	"  # in the step: stock read, price asked\n" +
	"  | sold by one script    . sold out\n" +
	"  z stopped               X late write\n"

// afterwards is said after an act, by its number.
var afterwards = map[int]string{
	2: "    Several instances, one # at a time.\n",
	3: "\n    No lock service can prevent this: a lease ends by the clock, and a process that does not " +
		"run cannot look " +
		"at a clock. The guard cancels the holder's context as soon as it runs again, which helps all code that " +
		"still looks. Here the last step ignores its context on purpose, to hit every time what is rare otherwise: " +
		"being stopped after the last look and before the write.\n",
}

// tellStory plays all acts, and reports whether each went as told.
func tellStory(ctx context.Context, cfg config, con *console) (bool, error) {
	if !canStop {
		return false, errors.New("-story stops and continues processes, which this system cannot")
	}
	cfg = storyConfig(cfg)
	st := &story{con: con, cfg: cfg}
	con.printOpening(cfg)

	took := map[int]float64{}
	for i, sc := range scenes {
		n := i + 1
		res, err := st.play(ctx, n, sc)
		if err != nil {
			return false, err
		}
		took[n] = res.Seconds
		con.printf("%s", afterwards[n])
		if n == 5 {
			con.printf("    %s times faster than act 2%s. If your step fits one script or one "+
				"UPDATE ... WHERE stock > 0, use that. The lock is for the step that does not fit.\n",
				times(took[2]/took[5]), res.caveat())
		}
		for _, m := range sc.must(res) {
			st.missed = append(st.missed, fmt.Sprintf("act %d: %s", n, m))
		}
	}
	return st.end(), nil
}

func (c *console) printOpening(cfg config) {
	c.printf("%s\n", c.paint(bold, "The flash sale in five acts"))
	c.printf("%d instances, each a process; %d items, %d requests from %d buyers; the price service "+
		"takes %v; TTL %v.\n",
		cfg.instances, cfg.stock, cfg.requests, cfg.concurrency, cfg.think, cfg.ttl)
	c.printf("%s", legend)
	c.narrow()
}

// play opens a sale, lets the act perform, and shows what came of it.
func (st *story) play(ctx context.Context, n int, sc scene) (res result, err error) {
	st.con.printTitle(n, sc.title)
	cfg := st.cfg
	cfg.mode = sc.mode
	spans := &timeline{}
	s, err := openSale(ctx, cfg, spans)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	raised := time.Now() // the curtain
	tell := func(text string) { st.con.tell(time.Since(raised), text) }
	if err := sc.perform(ctx, &act{sale: s, con: st.con, tell: tell}); err != nil {
		return result{}, err
	}
	if res, err = s.result(ctx); err != nil {
		return result{}, err
	}
	spans.print(st.con, s.fleet)
	st.con.printHarm(res)
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

// end says whether the acts went as told.
func (st *story) end() bool {
	if len(st.missed) == 0 {
		return true
	}
	st.con.printf("\n%s\n", st.con.paint(red, "The story did not go as told:"))
	for _, m := range st.missed {
		st.con.printf("  %s\n", m)
	}
	return false
}

// scene is an act as it is told: what is played, and what must come of it.
type scene struct {
	title   string
	mode    shop.Mode
	perform func(context.Context, *act) error
	must    func(result) []string // what did not go as told
}

// scenes are the five acts.
var scenes = []scene{
	{"No lock", shop.ModeNone, sellAll, func(r result) []string {
		return unless(r.Oversold > 0, "nothing was oversold")
	}},
	{`A lock: lockmw.Key(g, "stock:{sku}") on the route`, shop.ModeLock, sellAll, allRight},
	{"The lock, and a holder that is stopped past its TTL", shop.ModeLock, stopHolder, func(r result) []string {
		return append(unless(r.LostUpdates > 0, "no update was lost"),
			unless(r.LeasesLost > 0, "the holder's lease was not lost")...)
	}},
	{
		"The same, and the write carries the fencing token (guard.FencingToken)", shop.ModeFence, stopHolder,
		func(r result) []string {
			return append(allRight(r), unless(r.LateWrites > 0, "the late write was not refused")...)
		},
	},
	{"No lock and no price call: the whole step is one script", shop.ModeAtomic, sellAll, allRight},
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

// act is one sale of the story, seen by its audience.
type act struct {
	*sale
	con  *console // for colors
	tell func(text string)
}

func (a *act) says(format string, args ...any) { a.tell(fmt.Sprintf(format, args...)) }

// sellAll is an act in which nothing happens but the sale.
func sellAll(ctx context.Context, a *act) error {
	a.sell(ctx, 1, a.cfg.requests, a.fleet)
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
	if a.cfg.live {
		shop.Pause(ctx, 2*tellEvery) // so that the page has heard of the step before it is stopped
	}
	if err := a.halt(holder); err != nil {
		return fmt.Errorf("stop %s: %w", holder.name, err)
	}
	stopped := time.Now()
	a.says("%s holds the lease and has read stock %d. It asks for the price, and is stopped (SIGSTOP).",
		holder.name, a.cfg.stock)

	batch := a.cfg.stock * 2 / 3
	a.sell(ctx, 2, batch, others)
	_, sold := a.tally.progress()
	if ctx.Err() != nil || sold == 0 {
		return errors.Join(ctx.Err(), errors.New("nobody sold while the holder was stopped"))
	}
	before, _, err := a.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	a.says("Its TTL has passed and the others have gone on: %d sold, stock %d.", sold, before)

	if err := a.resume(holder); err != nil {
		return fmt.Errorf("continue %s: %w", holder.name, err)
	}
	a.spans.add(holder.name, stopped, time.Now(), markHalted)
	answerPrice()
	late := <-answered
	a.note(late)
	a.spans.add(holder.name, late.at, late.at, markLate)
	if err := a.tellLate(ctx, late, before); err != nil {
		return err
	}
	a.sell(ctx, 2+batch, a.cfg.requests-1-batch, a.fleet)
	return ctx.Err()
}

// tellLate says what became of the late write.
func (a *act) tellLate(ctx context.Context, late answer, before int) error {
	after, _, err := a.store.book.Glance(ctx)
	if err != nil {
		return err
	}
	name := late.instance.name
	if late.Code == shop.CodeLateWrite {
		a.says("%s goes on (SIGCONT) and writes: %s, stock %d. Its token %d is lower than %d.", name,
			a.con.paint(green, "late write refused"), after, late.Token, late.Newest)
		return nil
	}
	a.says("%s goes on (SIGCONT) and writes: %s, stock %d is %d again.", name,
		a.con.paint(red, "nothing stops it"), before, after)
	return nil
}

// times writes a factor, without decimals that mean nothing.
func times(k float64) string {
	if k >= 10 {
		return fmt.Sprintf("%.0f", k)
	}
	return fmt.Sprintf("%.1f", k)
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

// timeline keeps what the instances did and when. A nil one keeps nothing. Safe
// for concurrent use.
type timeline struct {
	mu    sync.Mutex // guards spans
	spans []span
}

type span struct {
	lane     string // name of the instance
	from, to time.Time
	mark     byte
}

func (t *timeline) add(lane string, from, to time.Time, mark byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans = append(t.spans, span{lane, from, to, mark})
}

// print draws one lane per instance.
func (t *timeline) print(con *console, fleet []*instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) == 0 {
		return
	}
	began, ended := t.spans[0].from, t.spans[0].to
	for _, s := range t.spans {
		if s.from.Before(began) {
			began = s.from
		}
		if s.to.After(ended) {
			ended = s.to
		}
	}
	width := max(1, min(timelineWidth, con.width-timelineMargin))
	step := ended.Sub(began)/time.Duration(width) + 1
	for _, in := range fleet {
		con.printf("    %-7s%s\n", in.name, con.paintLane(t.lane(in.name, began, step, width)))
	}
	end := fmt.Sprintf("%d ms", ended.Sub(began).Milliseconds())
	con.printf("    %-7s0%*s\n", "", width-1, end)
}

// lane draws one lane. A span fills the columns whose middle it covers, so that
// spans that do not overlap in time never share a column; a moment is shown
// wherever it falls. The caller holds the mutex.
func (t *timeline) lane(name string, began time.Time, step time.Duration, width int) []byte {
	lane := bytes.Repeat([]byte{' '}, width)
	for _, s := range t.spans {
		if s.lane != name {
			continue
		}
		from, to := s.from.Sub(began), s.to.Sub(began)
		first, last := int((from+step/2)/step), int((to-step/2)/step)
		if s.from.Equal(s.to) {
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
