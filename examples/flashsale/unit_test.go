package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func testShop(t *testing.T, stock int) (*store, *shop) {
	t.Helper()
	st, err := openStore(t.Context(), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.close(context.WithoutCancel(t.Context())) })
	if err := st.fill(t.Context(), stock); err != nil {
		t.Fatal(err)
	}
	return st, &shop{rdb: st.rdb, keys: st.keys, fenced: true}
}

func TestWriteIsRefusedIfItsTokenIsLowerThanOneSeen(t *testing.T) {
	st, s := testShop(t, 10)
	for _, c := range []struct {
		token   string
		refused bool
	}{
		{"1795165495785562", false},
		{"1795165495785562", false}, // the same lease may write twice
		{"1795165495785561", true},
		{"9", true},
		{"1795165495785563", false},
		{"1795165495785562", true},
	} {
		before, orders, refused, err := st.count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var late *lateWriteError
		err = s.place(t.Context(), sku, "order", before-1, c.token)
		if errors.As(err, &late) != c.refused || (err != nil && late == nil) {
			t.Errorf("token %s: %v", c.token, err)
		}
		wrote := 1
		if c.refused {
			wrote = 0
		}
		after, ordersAfter, refusedAfter, err := st.count(t.Context())
		if err != nil || after != before-wrote || len(ordersAfter) != len(orders)+wrote || refusedAfter != refused+1-wrote {
			t.Errorf("token %s: stock %d -> %d, %d -> %d orders, %d -> %d refused, %v", c.token,
				before, after, len(orders), len(ordersAfter), refused, refusedAfter, err)
		}
	}
}

func TestFencedShopWritesNothingWithoutALease(t *testing.T) {
	st, s := testShop(t, 10)
	if _, err := s.deduct(t.Context(), sku, "order"); err == nil {
		t.Error("sold without a fencing token")
	}
	if left, orders, _, err := st.count(t.Context()); left != 10 || len(orders) != 0 || err != nil {
		t.Errorf("stock %d, orders %v, %v", left, orders, err)
	}
}

func TestEveryBrokenInvariantIsNamed(t *testing.T) {
	good := result{Mode: modeFence, Stock: 5, Reached: 9, Sold: 5, Orders: 5}
	if faults := good.broken(); len(faults) > 0 {
		t.Errorf("nothing is broken, got %v", faults)
	}
	for want, spoil := range map[string]func(*result){
		"4 sold, want 5":       func(r *result) { r.Sold = 4 },
		"5 sold, want 4":       func(r *result) { r.Reached = 4 },
		"no request reached":   func(r *result) { r.Reached, r.Sold, r.Orders = 0, 0, 0 },
		"6 orders for 5 sold":  func(r *result) { r.Orders = 6 },
		"1 oversold":           func(r *result) { r.Oversold = 1 },
		"2 lost updates":       func(r *result) { r.LostUpdates = 2 },
		"-1 lost updates":      func(r *result) { r.LostUpdates = -1 },
		"4 orders for 5 sold":  func(r *result) { r.Orders = 4 },
		"0 sold, want 5":       func(r *result) { r.Sold = 0 },
		"100 orders for 5 sol": func(r *result) { r.Orders = 100 },
	} {
		bad := good
		spoil(&bad)
		if faults := strings.Join(bad.broken(), ", "); !strings.Contains(faults, want) {
			t.Errorf("got %q, want %q", faults, want)
		}
	}
}

func TestUnclearRequestIsSettledByTheOrderBook(t *testing.T) {
	in := &instance{name: "app-1"}
	tl := newTally()
	tl.add(answer{order: "1", instance: in, status: http.StatusOK, answerBody: answerBody{Code: codeSold}})
	tl.add(answer{order: "2", instance: in}) // the instance died
	tl.add(answer{order: "3", instance: in}) // this one before it wrote
	tl.add(answer{order: "4", instance: in, status: http.StatusConflict, answerBody: answerBody{Code: codeSoldOut}})
	tl.add(answer{order: "5", instance: in, status: http.StatusTooManyRequests, answerBody: answerBody{Code: "lock_queue_full"}})
	if found := tl.settle([]string{"1", "2"}); found != 1 {
		t.Errorf("%d found in the order book, want 1", found)
	}
	if _, sold := tl.progress(); sold != 2 || len(tl.unclear) != 1 || tl.reached() != 3 {
		t.Errorf("%d sold, %d unclear, %d reached the handler; want 2, 1, 3", sold, len(tl.unclear), tl.reached())
	}
}

func TestStepsThatDoNotOverlapShareNoColumn(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	tl := &timeline{}
	for i := range 45 { // turn and turn about, without a gap
		tl.add([]string{"app-1", "app-2"}[i%2], at(7*i), at(7*i+7), markInStep)
	}
	one, two := tl.lane("app-1", began, 5*time.Millisecond, timelineWidth), tl.lane("app-2", began, 5*time.Millisecond, timelineWidth)
	both := 0
	for i := range one {
		if one[i] == markInStep && two[i] == markInStep {
			t.Errorf("column %d is in both lanes", i)
		}
		if one[i] == markInStep || two[i] == markInStep {
			both++
		}
	}
	if both != 45*7/5 {
		t.Errorf("%d columns drawn of %d", both, timelineWidth)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
