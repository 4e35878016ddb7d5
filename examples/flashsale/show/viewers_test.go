package show

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// shelf is a book in memory. Each request to it takes a while.
type shelf struct {
	shop.OrderBook

	mu     sync.Mutex // guards the rest
	left   int
	orders []string
	within int // readers that ask for the orders now
	most   int // of them, at any time
}

func (s *shelf) Read(context.Context, string, uint64) (int, error) {
	time.Sleep(3 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left, nil
}

func (s *shelf) Orders(context.Context) ([]string, error) {
	s.mu.Lock()
	s.within++
	s.most = max(s.most, s.within)
	s.mu.Unlock()
	time.Sleep(3 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.within--
	return s.orders, nil
}

func (s *shelf) Place(_ context.Context, _, order string, left int, _ uint64) error {
	time.Sleep(2 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.orders = left, append(s.orders, order)
	return nil
}

// cheap is a price service.
type cheap struct{}

func (cheap) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{},
	}, nil
}

// looks sells ten items one after the other while readers look at the page. It
// returns how many looks there were, how many of them do not add up, and how
// many readers were there at the same time at most.
func looks(t *testing.T, mode shop.Mode) (seen views, together int) {
	t.Helper()
	const stock, readers = 10, 5
	g, err := guard.New(memlocker.New(), guard.WithName("stock"))
	if err != nil {
		t.Fatal(err)
	}
	book := &shelf{left: stock}
	r := gin.New()
	shop.AddRoutes(r, g, &shop.Shop{Book: book, Prices: &shop.PriceClient{HTTP: &http.Client{Transport: cheap{}}}},
		mode, shop.StyleRoute)
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	var mu sync.Mutex // guards seen
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range 20 {
				code, body := get(http.MethodGet, "/skus/lamp")
				var page shop.Page
				if err := json.Unmarshal([]byte(body), &page); err != nil || code != http.StatusOK {
					t.Errorf("%d %s", code, body)
				}
				mu.Lock()
				seen.Views++
				if page.Left+page.Orders != stock {
					seen.OddViews++
				}
				mu.Unlock()
			}
		})
	}
	for range stock {
		if code, body := get(http.MethodPost, "/skus/lamp/deduct"); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	}
	wg.Wait()
	if len(book.orders) != stock || book.left != 0 {
		t.Errorf("%d orders, %d left", len(book.orders), book.left)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return seen, book.most
}

func TestAPageOfTheItemIsNeverMadeBesideASale(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for _, mode := range []shop.Mode{shop.ModeLock, shop.ModeNone} {
		synctest.Test(t, func(t *testing.T) {
			seen, together := looks(t, mode)
			if seen.Views != 100 || together < 2 || (seen.OddViews == 0) != (mode == shop.ModeLock) {
				t.Errorf("mode %s: %d odd pages of %d, %d readers at once", mode, seen.OddViews, seen.Views, together)
			}
		})
	}
}
