package main

import "time"

const (
	openProcs  = 4
	firstRung  = 1000.0 // requests a second
	rungFactor = 1.25
	lowestRung = 200.0
	openWait   = 3 * time.Second

	goodShare = 0.999 // of the requests must be served
	goodP99   = 100.0 // ms
)

// climb measures rates of arrival, each 1.25 times the one before, until two in
// a row were too high. If none was served well, it tries lower rates.
func climb(b *bench, c call) (runs []run, err error) {
	if c.library == serial {
		return b.hotLoop(c, 1, 1)
	}
	top, commands := 0.0, 0.0
	try := func(rate float64) (good bool) {
		var r run
		if r, err = b.rung(c, rate); err != nil {
			return false
		}
		runs = append(runs, r)
		good = r.Values["served"] >= goodShare && r.Values["p99 ms"] <= goodP99
		if good {
			top, commands = max(top, rate), max(commands, r.Values["cmds/call"])
		}
		return good
	}
	rate, bad := firstRung, 0
	for rung := 0; rung < b.plan.TopRung && bad < 2 && err == nil; rung, rate = rung+1, rate*rungFactor {
		if bad++; try(rate) {
			bad = 0
		}
	}
	for rate = firstRung / rungFactor; top == 0 && rate > lowestRung && err == nil; rate /= rungFactor {
		try(rate)
	}
	sum := run{
		Workload: c.workload, Library: c.library, Round: b.round,
		Values: values{"top rate": top, "cmds/call": commands},
	}
	return append(runs, sum), err
}

// rung measures one rate of arrival.
func (b *bench) rung(c call, rate float64) (run, error) {
	all, _, err := b.measure(c.ctx, openProcs, job{
		Kind: "open", Library: c.library, Rate: rate / openProcs, Duration: b.plan.Open, MaxWait: openWait,
	}, nil)
	v := waits(all.Waits)
	v["served"] = share(all.Sections, all.Requests)
	v["cmds/call"] = share(all.Commands, all.Requests)
	v["goodput"] = perSecond(all.InTime, b.plan.Open)
	v["refused p99 ms"] = ms(quantile(sorted(all.Refusals), 0.99))
	v["late p99 ms"] = ms(quantile(sorted(all.Lags), 0.99))
	r := b.one(c, all, v)[0]
	r.Rate = rate
	return r, err
}

// overload sends five times the rate that the same library has just served.
func overload(b *bench, c call) ([]run, error) {
	closed, err := b.hotLoop(c, openProcs, 25)
	if err != nil {
		return nil, err
	}
	capacity := closed[0].Values["rate"]
	r, err := b.rung(c, max(capacity, 100)*b.plan.Overload)
	r.Values["capacity"] = capacity
	r.Values["offered"] = r.Rate
	r.Rate = 0
	return []run{r}, err
}
