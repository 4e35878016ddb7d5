package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/go-lockguard/guard/locker"
)

// op is an operation with a token, between two times. It was given with a key,
// or it has written.
type op struct {
	proc         int
	token        uint64
	call, answer int64
}

// tokens is C2. Each token that is given is higher than all before, and no write
// comes after a write with a higher token. An operation that is known to have
// happened, but not when it ended, is open to the end of time.
//
// The tokens that are given have one possible order, and so have the writes,
// by the log. A history is linearizable if that of each register is. So narrow
// decides it without a search.
func (v *Verdict) tokens(h *History) {
	if !v.lib.Tokens {
		return
	}
	for key, visits := range h.keys {
		v.distinct(visits)
		v.permitTokens(h, visits)
		for _, x := range visits {
			bare := x.token == 0 && !x.untold && x.role() != Reader
			held := x.exit != 0 && x.lost == 0 && (x.until == 0 || x.until >= x.got)
			unfenced := bare && held // until its release
			if unfenced && x.freed == 0 && !x.closing {
				v.violate(tokenOrder, "a turn without a token: %v", x)
			}
		}
		given := given(h, visits)
		slices.SortFunc(given, func(a, b op) int { return cmp.Compare(a.token, b.token) })
		written := h.written(key)
		for _, ops := range [][]op{given, written} {
			if text := falls(ops); !narrow(slices.Clone(ops)) {
				v.violate(tokenOrder, "key %d: tokens fall%s", key, text)
			}
		}
	}
}

// given returns the tokens of turns that were alone.
func given(h *History, visits []*visit) (ops []op) {
	for _, x := range visits {
		if x.token != 0 && x.alone() && !h.forgets(x, x.asked, x.got) {
			ops = append(ops, op{x.proc, x.token, x.asked, x.got})
		}
	}
	return ops
}

// written returns the writes to a key, in the order of the log.
func (h *History) written(key int) (ops []op) {
	for _, e := range h.log[key] {
		x := h.byID[e.ID]
		if e.Kind != 'f' || x == nil {
			continue
		}
		answer := x.wrote
		if answer == 0 {
			answer = math.MaxInt64
		}
		ops = append(ops, op{x.proc, e.Token, x.got, answer})
	}
	return ops
}

// narrow reports whether operations can have happened in their order. From each
// it cuts the time before the start of an earlier one, and the time after the
// end of a later one. Something must be left of each.
func narrow(ops []op) bool {
	call, end := int64(math.MinInt64), int64(math.MaxInt64)
	for i := range ops {
		call = max(call+1, ops[i].call)
		ops[i].call = call
	}
	for i := range slices.Backward(ops) {
		end = min(end-1, ops[i].answer)
		ops[i].answer = end
	}
	return !slices.ContainsFunc(ops, func(o op) bool { return o.answer < o.call })
}

// distinct looks for a token that two grants have, whatever the servers have
// lost.
func (v *Verdict) distinct(visits []*visit) {
	seen := map[uint64]*visit{}
	for _, x := range visits {
		if x.token == 0 {
			continue
		}
		if o := seen[x.token]; o != nil {
			v.violate(tokenOrder, "two have one token: %v\n    and %v", o, x)
		}
		seen[x.token] = x
	}
}

// falls describes two operations of which the later in the order ended before the
// earlier began.
func falls(ops []op) string {
	for i, b := range ops {
		for _, a := range ops[:i] {
			if a.call > b.answer {
				return fmt.Sprintf(": %d of process %d, at %.6f to %.6f, and %d of process %d, at %.6f to %.6f",
					a.token, a.proc, float64(a.call)/1e9, float64(a.answer)/1e9,
					b.token, b.proc, float64(b.call)/1e9, float64(b.answer)/1e9)
			}
		}
	}
	return ""
}

// handOffs is C9. Turns of one grant have consecutive tokens of one block of
// locker.FenceBlock. Tokens of two grants in one process are further apart,
// because more than that many microseconds lie between the grants. A call for
// the same key inside a section is a part of its turn.
func (v *Verdict) handOffs(h *History) {
	if !v.lib.Tokens {
		return
	}
	for _, visits := range h.keys {
		last := map[*lifetime]*visit{} // the newest visit of each process
		turns := map[*lifetime]int{}
		for _, x := range visits {
			if x.denied || x.inner != 0 && x.inner != x.token {
				v.violate(handOff, "a call inside the section was not its turn, token %d, "+
					"refused %t: %v", x.inner, x.denied, x)
			}
			if !x.alone() { // its grants overlap others
				continue
			}
			o := last[x.lifetime]
			last[x.lifetime] = x
			if o == nil || x.token-o.token >= locker.FenceBlock {
				turns[x.lifetime] = 1
				continue
			}
			if turns[x.lifetime]++; turns[x.lifetime] > locker.FenceBlock {
				v.violate(handOff, "more than %d turns on one grant: %v", locker.FenceBlock, x)
			}
			if o.lost != 0 && o.lost < x.got && !o.closing && !o.cart { // of a cart another key may have been lost
				v.violate(handOff, "a turn on a grant that was lost: %v\n    after %v", x, o)
			}
		}
	}
}
