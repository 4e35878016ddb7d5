package show

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// testAnswer is one that a buyer got from app-1.
func testAnswer(order string, status int, code string) answer {
	return answer{
		order: order, instance: &instance{name: "app-1"}, status: status, AnswerBody: shop.AnswerBody{Code: code},
		at: time.Now(),
	}
}

func TestUnclearRequestIsSettledByTheOrderBook(t *testing.T) {
	l := newLedger()
	l.heard(testAnswer("1", http.StatusOK, shop.CodeSold))
	l.heard(testAnswer("2", 0, "")) // the instance died
	l.heard(testAnswer("3", 0, "")) // this one before it wrote
	l.heard(testAnswer("4", http.StatusConflict, shop.CodeSoldOut))
	l.heard(testAnswer("5", http.StatusTooManyRequests, "lock_queue_full"))
	if found := l.settle([]string{"1", "2"}).settled; found != 1 {
		t.Errorf("%d found in the order book, want 1", found)
	}
	l.heard(testAnswer("6", http.StatusInternalServerError, shop.CodeFailed))
	n := l.counts()
	if r := l.settle(nil); n.Sold != 2 || n.Errors != 2 || n.Answered != 6 || r.Reached != 4 || r.Failed != 1 {
		t.Errorf("%+v, %d reached the handler and %d failed there; want 2 sold, 2 errors, 4 and 1", n, r.Reached,
			r.Failed)
	}
}

func TestTheSecondToSellAnItemIsMarked(t *testing.T) {
	l := newLedger()
	for i, order := range []string{"1", "2", "3"} {
		a := testAnswer(order, http.StatusOK, shop.CodeSold)
		a.Receipt = &shop.Receipt{Left: 9 - i/2}
		l.heard(a)
	}
	var doubles []string
	for _, v := range l.take().Visits {
		if v.Double != "" {
			doubles = append(doubles, v.Order+" after "+v.Double)
		}
	}
	if !slices.Equal(doubles, []string{"2 after 1"}) {
		t.Errorf("%q", doubles)
	}
	if u := l.take(); u.Visits != nil {
		t.Errorf("told twice: %+v", u)
	}
}

func TestWhatADeadInstanceHasToldStaysCounted(t *testing.T) {
	l := newLedger()
	at := time.Now().UnixMicro()
	lost := visit{Order: "1", Lane: "app-1", Came: at, Held: at + 2000, Lost: at + 4000, Ended: at + 9000}
	l.saw(lost)
	l.saw(lost) // its stream says so again
	l.setLane("app-1", laneGone)
	if n, q := l.counts(), l.quantiles(); n.LeasesLost != 1 || math.Round(q.WaitP99) != 2 || q.HoldP99 != 7 {
		t.Errorf("%d leases lost, %+v; want one, a wait of 2 ms, a hold of 7 ms", n.LeasesLost, q)
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}
