//go:build simrepeats

package explore

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each run repeats: what a second run of the same plan does is the same. Runs
// in which a process does not reach the store, or stands still beside rows, are
// left out, because one of some 100 does not repeat. So is farall on rows.
func TestSimRepeats(t *testing.T) {
	for _, c := range sims() {
		if c.fits() {
			t.Run(c.name, func(t *testing.T) { c.repeats(t, 3) })
		}
	}
	for i := range rowKinds {
		for _, c := range sims() {
			if c.on = &rowKinds[i]; c.fits() && !strings.HasPrefix(c.name, "farall") {
				t.Run(c.on.name+"/"+c.name, func(t *testing.T) { c.repeats(t, 3*len(rowKinds)) })
			}
		}
	}
}

func (c *sim) repeats(t *testing.T, of int) {
	t.Helper()
	h := c.hunt(t, Twice())
	if h.set.not = slices.Sorted(maps.Keys(outages)); c.on != nil {
		h.set.not = append(h.set.not, pause, longPause)
	}
	if _, story := h.singles(of); story != "" || h.st.Unlike > 0 {
		t.Errorf("%v\n%s", h, story)
	}
}
