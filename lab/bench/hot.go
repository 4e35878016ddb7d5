package main

import "fmt"

// hot is the workload in which all callers want one key, all the time.
func hot(name string, procs, callers int) workload {
	return workload{
		name: name,
		title: fmt.Sprintf("hot key, %s x %s, closed loop, GET and SET under the lock", some(procs, "process", "es"),
			some(callers, "caller", "s")),
		libs: withSerial(append([]string{linger}, peersOf()...)),
		measure: func(b *bench, c call) ([]run, error) {
			return b.hotLoop(c, procs, callers)
		},
	}
}

// hotLoop measures a closed loop on the hot key. Serial is the cost of the
// section without a lock, by one caller.
func (b *bench) hotLoop(c call, procs, callers int) ([]run, error) {
	if c.library == serial {
		procs, callers = 1, 1
	}
	all, each, err := b.measure(c.ctx, procs, job{
		Kind: "closed", Library: c.library, Callers: callers, Duration: b.plan.Closed, MaxWait: patient,
	}, nil)
	v := waits(all.Waits)
	v["rate"] = perSecond(all.InTime, b.plan.Closed)
	v["cmds/call"] = share(all.Commands, all.Sections)
	all.Cost.note(v, all.Sections)
	v["jain"] = jainOf(each)
	v["ideal ms"] = ms(idealWait(procs*callers, v["rate"]))
	return b.one(c, all, v), err
}

// jainOf returns the fairness over processes.
func jainOf(each []result) float64 {
	shares := make([]float64, len(each))
	for i, r := range each {
		shares[i] = float64(r.Sections)
	}
	return jain(shares)
}

func some(n int, of, plural string) string {
	if n == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d %s%s", n, of, plural)
}
