package show

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/fence"
)

// testBook returns a book with 10 items.
func testBook(t *testing.T) *shop.RedisBook {
	t.Helper()
	cfg := defaultConfig()
	cfg.Stock = 10
	st, err := openStore(t.Context(), cfg, strings.ToLower(rand.Text()[:8]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	return st.book
}

// Else somebody who was overtaken writes between the read and the write of the
// next one, who overwrites that.
func TestNobodyWritesLateOverWhatWasRead(t *testing.T) {
	b := testBook(t)
	for _, token := range []uint64{1, 2} {
		if left, err := b.Read(t.Context(), shop.SKU, token); left != 10 || err != nil {
			t.Fatalf("stock %d, %v", left, err)
		}
	}
	if err := b.Place(t.Context(), shop.SKU, "1", 9, 1); !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("the late write: %v", err)
	}
	if _, err := b.Read(t.Context(), shop.SKU, 1); !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("a late read: %v", err)
	}
	if err := b.Place(t.Context(), shop.SKU, "2", 9, 2); err != nil {
		t.Error(err)
	}
	left, orders, err := b.Glance(t.Context())
	if ids, err := b.Orders(t.Context()); left != 9 || orders != 1 ||
		!slices.Equal(ids, []string{"2"}) || err != nil {
		t.Errorf("stock %d, %d orders, %v, %v", left, orders, ids, err)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestABookSellsWhatThereIsAndNoMore(t *testing.T) {
	b := testBook(t)
	var wg sync.WaitGroup
	var sold atomic.Int32
	for i := range 25 {
		wg.Go(func() {
			switch _, err := b.Take(t.Context(), shop.SKU, strconv.Itoa(i)); {
			case err == nil:
				sold.Add(1)
			case !errors.Is(err, shop.ErrSoldOut):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	left, orders, err := b.Glance(t.Context())
	if sold.Load() != 10 || left != 0 || orders != 10 || err != nil {
		t.Errorf("%d sold, stock %d, %d orders, %v", sold.Load(), left, orders, err)
	}
}

func TestFencedShopWritesNothingWithoutALease(t *testing.T) {
	b := testBook(t)
	s := &shop.Shop{Book: b, Fenced: true}
	if _, err := s.Deduct(t.Context(), shop.SKU, "order"); !errors.Is(err, guard.ErrNoLease) {
		t.Errorf("sold without a fencing token: %v", err)
	}
	if left, orders, err := b.Glance(t.Context()); left != 10 || orders != 0 || err != nil {
		t.Errorf("stock %d, %d orders, %v", left, orders, err)
	}
}

func TestEveryBrokenInvariantIsNamed(t *testing.T) {
	fenced := setting{Mode: shop.ModeFence, Stock: 5}
	good := result{setting: fenced, reach: reach{Reached: 9}, counts: counts{Sold: 5, Orders: 5}}
	if faults := good.broken(); len(faults) > 0 {
		t.Errorf("nothing is broken, got %v", faults)
	}
	failedOver := result{setting: fenced, reach: reach{Reached: 4, Failed: 1}, counts: counts{Sold: 3, Orders: 3}}
	if faults := failedOver.broken(); len(faults) > 0 {
		t.Errorf("a buyer who was told of an error has bought nothing, got %v", faults)
	}
	for want, spoil := range map[string]func(*result){
		"all requests failed":  func(r *result) { r.Failed, r.Sold, r.Orders = r.Reached, 0, 0 },
		"4 sold, want 5":       func(r *result) { r.Sold = 4 },
		"5 sold, want 4":       func(r *result) { r.Reached = 4 },
		"no request reached":   func(r *result) { r.Reached, r.Sold, r.Orders = 0, 0, 0 },
		"6 orders for 5 sold":  func(r *result) { r.Orders = 6 },
		"1 oversold":           func(r *result) { r.Oversold = 1 },
		"2 lost updates":       func(r *result) { r.LostUpdates = 2 },
		"1 page views beside":  func(r *result) { r.OddViews = 1 },
		"-1 lost updates":      func(r *result) { r.LostUpdates = -1 },
		"4 orders for 5 sold":  func(r *result) { r.Orders = 4 },
		"0 sold, want 5":       func(r *result) { r.Sold = 0 },
		"100 orders for 5 sol": func(r *result) { r.Orders = 100 },
	} {
		bad := good
		spoil(&bad)
		if faults := fmt.Sprint(bad.broken()); !strings.Contains(faults, want) {
			t.Errorf("got %q, want %q", faults, want)
		}
	}
}

func TestStepsThatDoNotOverlapShareNoColumn(t *testing.T) {
	lanes := make([][]stretch, 2)
	for i := range int64(45) { // turn and turn about, without a gap
		lanes[i%2] = append(lanes[i%2], stretch{7000 * i, 7000*i + 7000, markInStep})
	}
	one, two := drawLane(lanes[0], 0, 5000, timelineWidth), drawLane(lanes[1], 0, 5000, timelineWidth)
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
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567",
		-1000: "-1,000", -100: "-100",
	} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
