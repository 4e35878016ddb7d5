package recipes_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/doccheck"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The code of prefixes.md.

func newShop(rdb *redis.Client) (*guard.Guard, error) {
	g, err := guard.New(redislocker.New(rdb, redislocker.WithPrefix("shop-prod")), guard.WithName("shop"))
	return g, err
}

// page reads a page of this directory.
func page(t *testing.T, name string) *doccheck.Page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return doccheck.Parse(name, string(text))
}

// as returns a client of a user of the ACL.
func as(t *testing.T, addr, user, password string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func closeAtEnd(t *testing.T, g *guard.Guard, err error) *guard.Guard {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

func TestTheUsersOfThePrefixesHaveAllRightsAndNoMore(t *testing.T) {
	server := redistest.Start(t)
	admin := redistest.Client(t, server.Addr)
	var users []string
	for _, s := range page(t, "prefixes.md").Sections {
		for _, b := range s.Blocks {
			for line := range strings.Lines(b.Text) {
				words := strings.Fields(line)
				if len(words) < 2 || words[0] != "user" {
					continue
				}
				command := []any{"acl", "setuser"}
				for _, w := range words[1:] {
					command = append(command, w)
				}
				if err := admin.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
				users = append(users, words[1])
			}
		}
	}
	if !slices.Equal(users, []string{"shop-prod", "shop-test"}) {
		t.Fatalf("the page has the users %q", users)
	}
	g, err := newShop(as(t, server.Addr, "shop-prod", "secret"))
	g = closeAtEnd(t, g, err)
	if found, err := g.Findings(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	g, err = newShop(as(t, server.Addr, "shop-test", "other"))
	g = closeAtEnd(t, g, err)
	var finding *guard.Finding
	if err := g.Check(t.Context()); !errors.As(err, &finding) || finding.Name != redislocker.FindingRights ||
		finding.Severity != locker.Refuse || !strings.Contains(err.Error(), "~shop-prod:*") {
		t.Errorf("the other user: %v", err)
	}
}

func TestPrefixesKeepServicesApart(t *testing.T) {
	server := redistest.Start(t)
	shop, err := newShop(redistest.Client(t, server.Addr))
	shop = closeAtEnd(t, shop, err)
	test, err := guard.New(redislocker.New(redistest.Client(t, server.Addr), redislocker.WithPrefix("shop-test")))
	test = closeAtEnd(t, test, err)
	again, err := newShop(redistest.Client(t, server.Addr))
	again = closeAtEnd(t, again, err)

	key := guard.Key("stock", "4711")
	nothing := func(context.Context) error { return nil }
	err = shop.Do(t.Context(), key, func(context.Context) error {
		if ran, err := test.TryDo(t.Context(), key, nothing); !ran || err != nil {
			t.Errorf("another prefix: %v, %v", ran, err)
		}
		if ran, err := again.TryDo(t.Context(), key, nothing); ran || err != nil {
			t.Errorf("the same prefix: %v, %v", ran, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
