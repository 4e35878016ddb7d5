// Package clash has names of its own for all that generated code uses.
package clash

import stdcontext "context"

var (
	guard, context, time, strings int

	keyPart, guardedStock, nextStock, guardOfMove int
)

// Stock is an interface and a method of it.
type Stock interface {
	//guard:lock stock:x{g} wait=1s
	Stock(ctx stdcontext.Context, g string) (next int, d error)
	//guard:lock stock:{err}
	onStock(next stdcontext.Context, _ int, d, err string) (int, error)
	stock(ctx stdcontext.Context) error
}

//guard:lock stock:{guardOfMove2}:{Move}
func Move(error stdcontext.Context, string, Move, guardOfMove2 string) (guard2, r2 bool, ctx error) {
	return true, false, nil
}

//guard:lock stock:{v}
func Generic[guard ~string, _ any, context interface{ ~int }](ctx stdcontext.Context, v guard, w context) error {
	return nil
}

//guard:lock pay:{time} once=1500ms
func Pay(context stdcontext.Context, time, guard string) (string, error) {
	return time + guard, nil
}
