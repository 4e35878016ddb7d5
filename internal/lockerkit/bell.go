package lockerkit

import "time"

// Bell wakes a goroutine that pauses until there is something to do. It has
// room for one ring, make(Bell, 1), which is kept until the goroutine pauses.
type Bell chan struct{}

// Ring wakes the goroutine.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Look calls look after each ring, and again for as long as look reports that
// there is something to look for. It pauses before each look, for a time that
// may follow from how long the look before it took. Look blocks until done is
// closed.
func (b Bell) Look(done <-chan struct{}, pause func(took time.Duration) time.Duration, look func() bool) {
	for {
		select {
		case <-b:
		case <-done:
			return
		}
		took := time.Duration(0)
		for more := true; more; {
			if !Pause(pause(took), done) {
				return
			}
			began := time.Now()
			more = look()
			took = time.Since(began)
		}
	}
}
