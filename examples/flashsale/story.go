package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// story plays the same small sale five times.
type story struct {
	con    *console
	scene  config
	missed []string // what did not go as told
}

// act is one sale of the story, seen by its audience.
type act struct {
	*sale
	con    *console
	raised time.Time // the curtain
}

// tellStory plays all acts, and reports whether each went as told.
func tellStory(ctx context.Context, cfg config, con *console) (bool, error) {
	if !canStop {
		return false, errors.New("-story stops and continues processes, which this system cannot")
	}
	cfg.stock, cfg.requests, cfg.concurrency = 30, 90, 24
	cfg.think, cfg.ttl, cfg.wait = 10*time.Millisecond, time.Second, 10*time.Second
	st := &story{con: con, scene: cfg}
	con.printf("%s\n", con.paint(bold, "The flash sale in five acts"))
	con.printf("%d instances, each a process; %d items, %d requests from %d buyers; the price service takes %v; TTL %v.\n",
		cfg.instances, cfg.stock, cfg.requests, cfg.concurrency, cfg.think, cfg.ttl)
	con.printf("One lane per instance:  # in the step: stock read, price asked   | sold by one script   . sold out   z stopped   X late write\n")

	none, err := st.play(ctx, "1  No lock", modeNone, sellAll)
	if err != nil {
		return false, err
	}
	st.expect(none.Oversold > 0, "act 1: nothing was oversold")

	lock, err := st.play(ctx, `2  A lock: lockmw.Key(g, "stock:{sku}") on the route`, modeLock, sellAll)
	if err != nil {
		return false, err
	}
	con.printf("    Several instances, one # at a time.\n")
	st.expectAllRight(2, lock)

	stopped, err := st.play(ctx, "3  The lock, and a holder that is stopped past its TTL", modeLock, stopHolder)
	if err != nil {
		return false, err
	}
	con.printf(`
    No lock service can prevent this: a lease ends by the clock, and a process that does not run cannot look
    at a clock. The guard cancels the holder's context as soon as it runs again, which helps all code that
    still looks. Here the last step ignores its context on purpose, to hit every time what is rare otherwise:
    being stopped after the last look and before the write.
`)
	st.expect(stopped.LostUpdates > 0, "act 3: no update was lost")
	st.expect(stopped.LeasesLost > 0, "act 3: the holder's lease was not lost")

	fence, err := st.play(ctx, "4  The same, and the write carries the fencing token (guard.FencingToken)", modeFence, stopHolder)
	if err != nil {
		return false, err
	}
	st.expectAllRight(4, fence)
	st.expect(fence.LateWrites > 0, "act 4: the late write was not refused")

	atomic, err := st.play(ctx, "5  No lock and no price call: the whole step is one script", modeAtomic, sellAll)
	if err != nil {
		return false, err
	}
	con.printf("    %s times faster than act 2%s. If your step fits one script or one\n"+
		"    UPDATE ... WHERE stock > 0, use that. The lock is for the step that does not fit.\n",
		times(lock.Seconds/atomic.Seconds), atomic.caveat())
	st.expectAllRight(5, atomic)
	return st.end(), nil
}

// play opens a sale, lets perform sell, and shows what came of it.
func (st *story) play(ctx context.Context, title string, m mode, perform func(context.Context, *act) error) (res result, err error) {
	st.con.printf("\n%s\n", st.con.paint(bold, title))
	cfg := st.scene
	cfg.mode, cfg.deaf = m, true
	spans := &timeline{}
	s, err := openSale(ctx, cfg, spans)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	a := &act{sale: s, con: st.con, raised: time.Now()}
	if err := perform(ctx, a); err != nil {
		return result{}, err
	}
	if res, err = s.result(ctx); err != nil {
		return result{}, err
	}
	spans.print(st.con, s.fleet)
	color := green
	if res.Oversold > 0 || res.LostUpdates > 0 {
		color = red
	}
	st.con.printf("    %d items, %d orders: %s\n", res.Stock, res.Orders,
		st.con.paint(color, fmt.Sprintf("oversold %d, lost updates %d", res.Oversold, res.LostUpdates)))
	return res, nil
}

// expect notes what did not go as told.
func (st *story) expect(ok bool, otherwise string) {
	if !ok {
		st.missed = append(st.missed, otherwise)
	}
}

// expectAllRight expects every item sold once.
func (st *story) expectAllRight(n int, r result) {
	st.expect(r.Oversold == 0 && r.LostUpdates == 0, fmt.Sprintf("act %d: %d oversold, %d lost updates", n, r.Oversold, r.LostUpdates))
	st.expect(r.Sold == r.Stock && r.Orders == r.Stock, fmt.Sprintf("act %d: %d sold, %d orders", n, r.Sold, r.Orders))
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

// sellAll is an act in which nothing happens but the sale.
func sellAll(ctx context.Context, a *act) error {
	a.sell(ctx, 1, a.cfg.requests, a.fleet)
	return ctx.Err()
}

// stopHolder is an act in which the first instance takes the lease, reads the stock and asks for the price; there it is
// stopped. Its lease expires, the others sell; then it goes on, gets its price and writes.
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
	if err := holder.halt(); err != nil {
		return fmt.Errorf("stop %s: %w", holder.name, err)
	}
	stopped := time.Now()
	a.says("%s holds the lease and has read stock %d. It asks for the price, and is stopped (SIGSTOP).", holder.name, a.cfg.stock)

	batch := a.cfg.stock * 2 / 3
	a.sell(ctx, 2, batch, others)
	_, sold := a.tally.progress()
	if ctx.Err() != nil || sold == 0 {
		return errors.Join(ctx.Err(), errors.New("nobody sold while the holder was stopped"))
	}
	before, err := a.store.stock(ctx)
	if err != nil {
		return err
	}
	a.says("Its TTL has passed and the others have gone on: %d sold, stock %d.", sold, before)

	if err := holder.resume(); err != nil {
		return fmt.Errorf("continue %s: %w", holder.name, err)
	}
	a.spans.add(holder.name, stopped, time.Now(), markHalted)
	answerPrice()
	late := <-answered
	a.note(late)
	a.spans.add(holder.name, late.at, late.at, markLate)
	after, err := a.store.stock(ctx)
	if err != nil {
		return err
	}
	if late.Code == codeLateWrite {
		a.says("%s goes on (SIGCONT) and writes: %s, stock %d.", holder.name, a.con.paint(green, "late write refused"), after)
		a.con.printf("    %5s     token %d < %d\n", "", late.Token, late.Newest)
	} else {
		a.says("%s goes on (SIGCONT) and writes: %s, stock %d is %d again.", holder.name,
			a.con.paint(red, "nothing stops it"), before, after)
	}
	a.sell(ctx, 2+batch, a.cfg.requests-1-batch, a.fleet)
	return ctx.Err()
}

// says tells what happens, and when.
func (a *act) says(format string, args ...any) {
	a.con.printf("    %5d ms  %s\n", time.Since(a.raised).Milliseconds(), fmt.Sprintf(format, args...))
}

// times writes a factor, without decimals that mean nothing.
func times(k float64) string {
	if k >= 10 {
		return fmt.Sprintf("%.0f", k)
	}
	return fmt.Sprintf("%.1f", k)
}
