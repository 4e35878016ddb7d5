package turns

import "testing"

func TestWishesThatAreOverMakeRoom(t *testing.T) {
	var ws wishes
	asks := 0
	add := func(w *Wish) <-chan struct{} { return w.C(func() { asks++; ws.add(w) }) }
	lasts := &Wish{}
	heard := add(lasts)
	for range 100 {
		w := &Wish{}
		add(w)
		add(w)
		w.End()
	}
	if len(ws.all) > 2 || asks != 101 {
		t.Errorf("%d wishes are kept after %d asks, want the live one and the last", len(ws.all), asks)
	}
	ws.tell()
	ws.tell()
	select {
	case <-heard:
	default:
		t.Error("the live one is not told")
	}
}
