package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-lockguard/guard/locker"
)

// op is an operation of the model. It gets a key with a token, or writes with
// the token.
type op struct {
	write bool
	token uint64
}

// registers is the state of the model. It has the last token that was given,
// and the highest that has written.
type registers struct{ given, written uint64 }

// model defines the tokens of one key. Each token that is given is higher than
// all before. No write comes after a write with a higher token.
func model(init registers) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return init },
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(registers), input.(op)
			if o.write {
				return o.token >= s.written, registers{s.given, o.token}
			}
			return o.token > s.given, registers{o.token, s.written}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
}

// tokens is C2. An operation that is known to have happened, but not when it
// ended, is open to the end of time.
func (v *verdict) tokens(h *history) {
	if !v.lib.Tokens {
		return
	}
	for key, visits := range h.keys {
		v.distinct(visits)
		v.permitTokens(h, visits)
		for _, x := range visits {
			bare := x.token == 0 && x.role() != reader
			unfenced := bare && x.exit != 0 && x.lost == 0 // it was held until its release
			if unfenced && x.freed == 0 && !x.closing {
				v.violate(tokenOrder, "a turn without a token: %v", x)
			}
		}
		var given, written []porcupine.Operation
		for _, x := range visits {
			if x.token != 0 && x.alone() && !h.forgets(x, x.asked, x.got) {
				given = append(given, porcupine.Operation{
					ClientId: x.proc, Input: op{token: x.token},
					Call: x.asked, Return: x.got,
				})
			}
		}
		slices.SortFunc(given, func(a, b porcupine.Operation) int {
			return cmp.Compare(a.Input.(op).token, b.Input.(op).token)
		})
		for _, e := range h.log[key] {
			x := h.byID[e.id]
			if e.kind != 'f' || x == nil {
				continue
			}
			o := porcupine.Operation{
				ClientId: x.proc, Input: op{write: true, token: e.token},
				Call: x.got, Return: x.wrote,
			}
			if x.wrote == 0 {
				o.Return = math.MaxInt64
			}
			written = append(written, o)
		}
		if !narrow(given) || !narrow(written) {
			v.violate(tokenOrder, "key %d: tokens fall%s", key, falls(append(given, written...)))
			continue
		}
		v.linearizable(key, append(given, written...))
	}
}

// narrow takes operations in their only possible order, by their tokens or by
// the log of the store. From each it cuts the time before the start of an
// earlier one, and the time after the end of a later one. The result has the
// same histories, and porcupine needs no search for it. With thirty waiters at
// a time a search would never end. narrow returns false if nothing is left of
// an operation.
func narrow(ops []porcupine.Operation) bool {
	call, end := int64(math.MinInt64), int64(math.MaxInt64)
	for i := range ops {
		call = max(call+1, ops[i].Call)
		ops[i].Call = call
	}
	for i := range slices.Backward(ops) {
		end = min(end-1, ops[i].Return)
		ops[i].Return = end
	}
	return !slices.ContainsFunc(ops, func(o porcupine.Operation) bool { return o.Return < o.Call })
}

// distinct looks for a token that two grants have, whatever the servers have
// lost.
func (v *verdict) distinct(visits []*visit) {
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

// linearizable compares the history of a key with the model. It does so in
// parts, because its time and memory grow with the square of the length. Each
// part begins with everything that is known to have happened before.
func (v *verdict) linearizable(key int, ops []porcupine.Operation) {
	const part, overlap = 3000, 300
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for from := 0; from < len(ops); from += part - overlap {
		some := ops[from:min(from+part, len(ops))]
		switch porcupine.CheckOperationsTimeout(model(before(ops, some)), some, 20*time.Second) {
		case porcupine.Illegal:
			v.violate(tokenOrder, "key %d: tokens fall in these %d operations%s", key, len(some), falls(some))
		case porcupine.Unknown:
			v.violate(soundRun, "key %d: porcupine takes too long over %d operations", key, len(some))
		case porcupine.Ok:
		}
	}
}

// before returns the operations that must have happened before the first of
// some began.
func before(all, some []porcupine.Operation) (r registers) {
	first := int64(math.MaxInt64)
	for _, o := range some {
		first = min(first, o.Call)
	}
	for _, o := range all {
		if o.Return >= first {
			return r // the tokens are in this order
		}
		if in := o.Input.(op); in.write {
			r.written = max(r.written, in.token)
		} else {
			r.given = max(r.given, in.token)
		}
	}
	return r
}

// falls describes two operations of which the later has the lower token.
func falls(ops []porcupine.Operation) string {
	for i, b := range ops {
		for _, a := range ops[:i] {
			x, y := a.Input.(op), b.Input.(op)
			if x.write == y.write && (a.Call > b.Return || y.token < x.token) {
				return fmt.Sprintf(": %+v of process %d, at %.6f to %.6f, and %+v of process %d, at %.6f to %.6f",
					x, a.ClientId, float64(a.Call)/1e9, float64(a.Return)/1e9, y, b.ClientId, float64(b.Call)/1e9,
					float64(b.Return)/1e9)
			}
		}
	}
	return ""
}

// handOffs is C9. Turns of one grant have consecutive tokens of one block of
// locker.FenceBlock. Tokens of two grants in one process are further apart,
// because more than that many microseconds lie between the grants. A call for
// the same key inside a section is a part of its turn.
func (v *verdict) handOffs(h *history) {
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
