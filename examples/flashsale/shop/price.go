package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Quote is the answer of the price service.
type Quote struct {
	Cents int `json:"cents"`
}

// PriceClient asks the price service. Safe for concurrent use.
type PriceClient struct {
	HTTP     *http.Client
	Base     string
	Instance string // who asks, for the timeline
}

// ask returns the price of one item for this order. It blocks for one HTTP
// request, at most until ctx ends.
func (p *PriceClient) ask(ctx context.Context, sku, order string) (cents int, err error) {
	query := url.Values{"sku": {sku}, "order": {order}, "instance": {p.Instance}}
	var q Quote
	if err := GetJSON(ctx, p.HTTP, p.Base+"/price?"+query.Encode(), &q); err != nil {
		return 0, fmt.Errorf("price service: %w", err)
	}
	return q.Cents, nil
}

// GetJSON reads the answer at an address, at most until ctx ends.
func GetJSON(ctx context.Context, client *http.Client, address string, into any) error {
	body, err := Get(ctx, client, address)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(into)
}

// Get returns the body of the answer at an address, to be closed.
func Get(ctx context.Context, client *http.Client, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, errors.New(resp.Status)
	}
	return resp.Body, nil
}
