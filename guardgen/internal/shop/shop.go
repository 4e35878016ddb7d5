// Package shop is what the tests of guardgen run: interfaces and functions with directives of every form, in front of
// code that the tests control.
package shop

import (
	"context"
	stdtime "time"
)

//go:generate go tool guardgen

// Order has a key in each of its forms.
type Order struct {
	ID       string
	Customer *Customer
	Tags     []string
}

// Customer is a part of Order.
type Customer struct{ Number int64 }

// GetSku is a method as protoc-gen-go makes it.
func (o *Order) GetSku() string {
	if o == nil {
		return ""
	}
	return o.ID
}

// SKU has a String method, so that it is a part of a key like that of a string.
type SKU struct{ Group, Item string }

func (s SKU) String() string { return s.Group + "/" + s.Item }

// Reader is embedded.
type Reader interface {
	Left(ctx context.Context, sku string) (int, error)
	//guard:lock stock:{sku}
	Count(ctx context.Context, sku string) (int, error)
}

// Inventory is the interface of the README.
type Inventory interface {
	Reader

	// Deduct takes n items from the stock.
	//
	//guard:lock stock:{sku} wait=200ms
	Deduct(ctx context.Context, sku string, n int) (left int, err error)
	//guard:lock order:{o.ID} ttl=30s wait=0s fencing
	Pay(ctx context.Context, o *Order) error
	//guard:lock stock:{from} + stock:{to} hold=90s waiters=10 name=transfer norenew
	Move(ctx context.Context, from, to string, n int) (int, int, error)
	//guard:lock sku:{req.GetSku()}
	Reserve(_ context.Context, req *Order, until stdtime.Time) error
	//guard:lock customer:no-{o.Customer.Number}:{o.ID}
	Bill(ctx context.Context, o Order) (total float64, err error)
	//guard:lock group:{of}
	Drop(ctx context.Context, of SKU, also ...string) ([]string, error)
	//guard:lock stock:{guard}:{n}
	Odd(context context.Context, guard string, n int, d, p2 bool, _ any) (string, error)
	//guard:lock label:l-{sku}-x wait=1s
	Label(ctx context.Context, sku string) (text string, err error)
	//guard:lock everything one
	Close(context.Context) error

	internal() int
}

// Payments has methods whose results are kept.
type Payments interface {
	//guard:lock pay:{o.ID} once=24h
	Charge(ctx context.Context, o *Order) (receipt string, err error)
	//guard:lock quote:{sku} once=90s name=quote
	Quote(_ context.Context, sku string) (*Order, error)
}

// Shelf has type parameters, and an embedded interface with its own.
type Shelf[K ~string | ~int, V any] interface {
	Getter[K, V]
	//guard:lock shelf:{k}
	Put(ctx context.Context, k K, v V) (old V, err error)
}

// Getter is embedded in Shelf.
type Getter[K comparable, V any] interface {
	//guard:lock shelf:{k}
	Get(ctx context.Context, k K) (V, error)
}

// Run has the name of its method, which is a keyword in lower case but for its first letter.
type Run interface {
	//guard:lock run:{id}
	Run(ctx context.Context, id uint8) error
	//guard:lock run:{id}
	Select(ctx context.Context, id uint8) error
	onRun()
}

// Docs has the modes.
type Docs interface {
	//guard:lock doc:{id}
	Write(ctx context.Context, id string) error
	//guard:lock doc:{id} shared failopen
	Read(ctx context.Context, id string) error
	//guard:lock exports one permits=3
	Export(ctx context.Context, id string) error
}

type hidden interface {
	//guard:lock {ok}
	do(ctx context.Context, ok bool) error
}

// Restock is a function.
//
//guard:lock stock:{sku} wait=1h30m
func Restock(ctx context.Context, sku string, n int) (int, error) {
	return step(ctx, "Restock", sku, n)
}

//guard:lock list:{name} func=GuardedAppend
func appendTo[T any](ctx context.Context, name string, list *[]T, items ...T) error {
	if _, err := step(ctx, "appendTo", name, len(items)); err != nil {
		return err
	}
	*list = append(*list, items...)
	return nil
}

// step is what the functions do: the tests set it.
var step func(ctx context.Context, what, key string, n int) (int, error)
