package faults

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// results are the results of this run, by row and library.
var results = struct {
	sync.Mutex // guards by
	by         rig.Results
}{by: rig.Results{}}

var rowNumber = regexp.MustCompile(`Fault(\d\d)`)

// row returns the number of the row that t tries.
func row(t *testing.T) int {
	t.Helper()
	m := rowNumber.FindStringSubmatch(t.Name())
	if m == nil {
		t.Fatalf("%s has no number", t.Name())
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// keeps ends a test. It records that guard does what the row demands, unless t
// has failed.
func keeps(t *testing.T, format string, args ...any) {
	t.Helper()
	if t.Failed() {
		return
	}
	r := rig.Result{Kept: rig.Yes, Does: fmt.Sprintf(format, args...)}
	t.Logf("%s: %s: %s", libs.Guard.Name, r.Kept, r.Does)
	n := row(t)
	results.Lock()
	defer results.Unlock()
	if old, twice := results.by[n][libs.Guard.Name]; twice { // a row of two tests
		r.Does = old.Does + "; " + r.Does
	}
	results.by[n] = map[string]rig.Result{libs.Guard.Name: r}
}
