package lockerkit

import (
	"testing"

	"github.com/go-lockguard/guard/locker"
)

// A timer that has fired may wait for the mutex while the guard looks.
func TestAClaimThatWasPutOffIsNotOver(t *testing.T) {
	life := NewLife("mystore")
	if err := life.Open(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	b := NewBook[struct{}](life, "here", func(*locker.Claim, string) { t.Error("it is over though it was looked at") })
	p := b.Page(&locker.Claim{Owner: "a"})
	p.Queue("entry")
	p.timeUp()
	if p.Look() != "entry" {
		t.Error("it has left the queue")
	}
	p.Leave()
	if err := life.Close(t.Context(), func() {}, func() {}); err != nil {
		t.Error(err)
	}
}
