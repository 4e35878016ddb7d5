package faults

import (
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"

	"github.com/go-lockguard/guard/internal/torture/libs"
)

// A result is what one library did in one row.
type result struct {
	Kept verdict `json:"kept"`
	Does string  `json:"does"`
}

// verdict says whether a library does what the row wants.
type verdict string

const (
	yes   verdict = "yes"
	no    verdict = "no"
	parts verdict = "in part"
	none  verdict = "n/a" // not applicable, for the reason given
)

// results are those of this run, by row and library.
var results = struct {
	sync.Mutex // guards by
	by         map[int]map[string]result
}{by: map[int]map[string]result{}}

var rowNumber = regexp.MustCompile(`Fault(\d\d)`)

// row is the number of the row that t is about.
func row(t *testing.T) int {
	t.Helper()
	m := rowNumber.FindStringSubmatch(t.Name())
	if m == nil {
		t.Fatalf("%s has no number", t.Name())
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// keeps ends a test: it notes that guard does what the row wants, unless t has failed, and tries the row with its peers.
func keeps(t *testing.T, format string, args ...any) {
	t.Helper()
	if !t.Failed() {
		note(t, libs.Guard.Name, result{yes, fmt.Sprintf(format, args...)})
	}
	try := peers[row(t)]
	if !*withPeers || try == nil {
		return
	}
	for _, lib := range libs.All()[1:] {
		t.Run(lib.Name, func(t *testing.T) {
			t.Parallel()
			pprof.SetGoroutineLabels(pprof.WithLabels(context.WithoutCancel(t.Context()), pprof.Labels(label, t.Name())))
			note(t, lib.Name, tried(t, lib, try)) // what it leaves behind is not ours
		})
	}
}

func note(t *testing.T, lib string, r result) {
	t.Helper()
	t.Logf("%s: %s: %s", lib, r.Kept, r.Does)
	n := row(t)
	results.Lock()
	defer results.Unlock()
	if results.by[n] == nil {
		results.by[n] = map[string]result{}
	}
	if old, twice := results.by[n][lib]; twice { // a row of two tests
		r = result{r.Kept, old.Does + "; " + r.Does}
	}
	results.by[n][lib] = r
}
