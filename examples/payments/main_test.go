package main

import (
	"strings"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
)

func TestPaymentsAreChargedOnceThoughClientsRepeatThem(t *testing.T) {
	s := settings{redis: redistest.Start(t).Addr, payments: 200, instances: 2, cut: 5, header: true}
	r, err := run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.print(&out)
	t.Log(out.String())
	if !r.balances() || r.cut == 0 || r.replayed == 0 {
		t.Errorf("%+v", r)
	}
}

// Without the header the same faults charge twice.
func TestWithoutAKeyPaymentsAreChargedTwice(t *testing.T) {
	r, err := run(t.Context(), settings{payments: 100, instances: 2, cut: 5})
	if err != nil {
		t.Fatal(err)
	}
	if r.twice == 0 || r.none != 0 {
		t.Errorf("%+v", r)
	}
}
