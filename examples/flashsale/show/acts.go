package show

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

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
