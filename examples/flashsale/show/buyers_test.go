package show

import (
	"net/http"
	"testing"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestAnOrderThatIsSentTwiceGetsOneReceipt(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"lock", "fence"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			code, res := sell(t, "-style", "once", "-mode", mode, "-redis", server.Addr,
				"-requests", "800", "-stock", "200")
			if code != exitOK || res.Sold != 200 || res.Orders != 200 || res.Oversold != 0 {
				t.Errorf("exit status %d, %d sold, %d orders, %d oversold; want %d, 200, 200, 0",
					code, res.Sold, res.Orders, res.Oversold, exitOK)
			}
			if res.SentTwice != 80 || res.OrderedTwice != 0 || res.Contradicted != 0 {
				t.Errorf("%d sent twice, %d ordered twice, %d contradicted; want 80, 0, 0",
					res.SentTwice, res.OrderedTwice, res.Contradicted)
			}
			wantEmpty(t, server.Addr)
		})
	}
}

func TestOrdersThatAreDoneTwiceAreFound(t *testing.T) {
	sold := func(left int) answer {
		return answer{status: http.StatusOK, AnswerBody: shop.AnswerBody{
			Code: shop.CodeSold, Receipt: &shop.Receipt{Order: "7", Left: left},
		}}
	}
	soldOut := answer{status: http.StatusConflict, AnswerBody: shop.AnswerBody{Code: shop.CodeSoldOut}}
	busy := answer{status: http.StatusConflict, AnswerBody: shop.AnswerBody{Code: "lock_timeout"}}
	for _, c := range []struct {
		name          string
		first, second answer
		contradicted  int
	}{
		{"one receipt", sold(4), sold(4), 0},
		{"two receipts", sold(4), sold(3), 1},
		{"a receipt and none left", sold(4), soldOut, 1},
		{"refused, then sold", busy, sold(4), 0},
		{"no answer", sold(4), answer{}, 0},
	} {
		var b sale
		if best := b.best(c.first, c.second); !best.final() {
			t.Errorf("%s: the buyer goes by %q", c.name, best.Code)
		}
		if sum := b.twice; sum.SentTwice != 1 || sum.Contradicted != c.contradicted {
			t.Errorf("%s: %d sent, %d contradicted; want 1, %d", c.name, sum.SentTwice, sum.Contradicted,
				c.contradicted)
		}
	}
}
