package turns

import "testing"

func TestWishesThatAreOverMakeRoom(t *testing.T) {
	var ws signals
	asks := 0
	add := func(w *Signal) <-chan struct{} { return w.C(func() { asks++; ws.add(w) }) }
	lasts := &Signal{}
	heard := add(lasts)
	for range 100 {
		w := &Signal{}
		add(w)
		add(w)
		w.End()
	}
	if len(ws.all) > 2 || asks != 101 {
		t.Errorf("%d signals are kept after %d asks, want the live one and the last", len(ws.all), asks)
	}
	ws.send()
	ws.send()
	select {
	case <-heard:
	default:
		t.Error("the live one is not told")
	}
}
