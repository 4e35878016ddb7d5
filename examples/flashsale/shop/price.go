package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Quote is the answer of the price-and-risk service.
type Quote struct {
	Cents int  `json:"cents"`
	Risky bool `json:"risky"`
}

// PriceClient asks the price-and-risk service. Safe for concurrent use.
type PriceClient struct {
	HTTP     *http.Client
	Base     string
	Instance string // who asks, for the timeline
}

// ask returns the price of one item for this order. It blocks for one HTTP
// request, at most until ctx ends.
func (p *PriceClient) ask(ctx context.Context, sku, order string) (cents int, err error) {
	query := url.Values{"sku": {sku}, "order": {order}, "instance": {p.Instance}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Base+"/price?"+query.Encode(), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("price service: %s", resp.Status)
	}
	var q Quote
	if err := json.NewDecoder(resp.Body).Decode(&q); err != nil {
		return 0, fmt.Errorf("price service: %w", err)
	}
	if q.Risky {
		return 0, errors.New("price service: order refused as risky")
	}
	return q.Cents, nil
}
