//go:build simrepeats && unix

package explore

import (
	"os"
	"syscall"
	"testing"
)

// Each run repeats: what a second run of the same plan does is the same.
func TestSimRepeats(t *testing.T) {
	for _, c := range sims() {
		if c.fits() {
			t.Run(c.name, func(t *testing.T) { c.repeats(t, 3) })
		}
	}
	for i := range rowKinds {
		for n, c := range sims() {
			if c.on, c.nth = &rowKinds[i], i+n; c.fits() {
				t.Run(c.on.name+"/"+c.name, func(t *testing.T) { c.repeats(t, 3*len(rowKinds)) })
			}
		}
	}
}

// repeats tries one of so many single faults, each twice, and each of them if
// there is SIM_LEVEL.
func (c *sim) repeats(t *testing.T, of int) {
	t.Helper()
	if os.Getenv("SIM_LEVEL") != "" {
		of = 1
	}
	h := c.hunt(t, Twice(), func(s *settings) { s.late = interrupted() })
	_, story := h.singles(of)
	t.Logf("%v, %d anew", h, h.st.Anew)
	if story != "" || h.st.Unlike > 0 {
		t.Error(story)
	}
}

// interrupted returns a function that says whether the system has taken the
// processor away since its last call. Go then lets a goroutine wait that has
// not blocked, and others go on before it.
func interrupted() func() bool {
	var before int64
	return func() bool {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		now := int64(u.Nivcsw) //nolint:unconvert // it is an int32 elsewhere
		was := before
		before = now
		return now > was
	}
}
