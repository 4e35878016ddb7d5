package show

import (
	"context"
	"errors"
	"fmt"
	"time"
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
