package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// newGuard returns a guard that is closed when t ends, and its locker.
func newGuard(t *testing.T, c *clientv3.Client, prefix string, opts ...guard.Option) (
	*guard.Guard, *etcdlocker.Locker,
) {
	t.Helper()
	l := etcdlocker.New(c, etcdlocker.WithPrefix(prefix))
	return testguard.Patient(t, l, opts...), l
}

// writes writes x under the leases in ctx, and reports whether it was done.
func writes(ctx context.Context, t *testing.T, c *clientv3.Client, l *etcdlocker.Locker, x string) bool {
	t.Helper()
	r, err := c.Txn(context.WithoutCancel(ctx)).If(l.Held(ctx)...).Then(clientv3.OpPut(x, "1")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r.Succeeded
}

func TestHeldIsTrueForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	g, l := newGuard(t, c, prefix)
	other, otherLocker := newGuard(t, c, prefix)
	data := prefix + "data" // its own, not in braces

	var leaked context.Context
	err := g.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context) error {
		leaked = ctx
		if !writes(ctx, t, c, l, data) || len(l.Held(ctx)) != 4 {
			t.Error("Held does not hold for the owner of both keys")
		}
		if writes(ctx, t, c, otherLocker, data) {
			t.Error("Held holds for a locker whose guard has no lease in ctx")
		}
		if err := g.Do(ctx, "a", func(ctx context.Context) error {
			if !writes(ctx, t, c, l, data) {
				t.Error("Held does not hold inside a lease on the same key")
			}
			return nil
		}); err != nil {
			return err
		}
		s, err := other.Inspect(ctx, "a")
		if err != nil {
			return err
		}
		if err := other.ForceRelease(ctx, "a", s.Owner); err != nil {
			return err
		}
		if writes(ctx, t, c, l, data) {
			t.Error("Held holds after one of the keys was taken away")
		}
		return nil
	})
	if err != nil && !errors.Is(err, guard.ErrLeaseLost) {
		t.Fatal(err)
	}
	if writes(leaked, t, c, l, data) {
		t.Error("Held holds after the lease was released")
	}
	if writes(t.Context(), t, c, l, data) {
		t.Error("Held holds without a lease")
	}
}

func TestTheRightsThatAreDocumentedAreEnough(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, 1, etcdtest.Settings{})[0]
	withAuth(t, etcdtest.Client(t, m.Addr))

	as := func(user string) *clientv3.Client {
		config := etcdtest.Config(m.Addr)
		config.Username, config.Password = user, user
		if user == "" {
			config.Password = ""
		}
		c, err := clientv3.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	g, l := newGuard(t, as("app"), "guard/")
	found, rest := locker.Findings(g.Check(t.Context()))
	if rest != nil {
		t.Fatal(rest)
	}
	for _, f := range found {
		if f.Name != etcdlocker.FindingStatus {
			t.Errorf("Check: %v", f)
		}
	}
	handsOver(t, g, as("app"))
	if _, err := l.Inspect(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	for _, user := range []string{"stranger", ""} {
		strange, _ := newGuard(t, as(user), "guard/")
		err := strange.Do(t.Context(), "k", func(context.Context) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "rights") {
			t.Errorf("Do of user %q: %v, want an error that says what to do", user, err)
		}
		found, _ := locker.Findings(strange.Check(t.Context()))
		if len(found) == 0 || found[0].Name != etcdlocker.FindingRights {
			t.Errorf("Check of user %q: %v, want a finding %q", user, found, etcdlocker.FindingRights)
		}
	}
}

// Close may end the watch of the inbox while etcd refuses it.
func TestCloseEndsWithoutRights(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, 1, etcdtest.Settings{})[0]
	withAuth(t, etcdtest.Client(t, m.Addr))
	config := etcdtest.Config(m.Addr)
	config.Username, config.Password = "stranger", "stranger"
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for range 100 {
		g, err := guard.New(etcdlocker.New(c))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = g.TryDo(t.Context(), "k", func(context.Context) error { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err = g.Close(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// withAuth turns authentication on, with a user that has the rights of the
// documentation and one that has none.
func withAuth(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	_, e1 := c.RoleAdd(ctx, "root")
	_, e2 := c.RoleAdd(ctx, "guard")
	_, e3 := c.RoleGrantPermission(ctx, "guard", "guard/", clientv3.GetPrefixRangeEnd("guard/"),
		clientv3.PermissionType(clientv3.PermReadWrite))
	var users []error
	for user, role := range map[string]string{"root": "root", "app": "guard", "stranger": ""} {
		_, err := c.UserAdd(ctx, user, user)
		if role != "" {
			_, grant := c.UserGrantRole(ctx, user, role)
			err = errors.Join(err, grant)
		}
		users = append(users, err)
	}
	_, e4 := c.AuthEnable(ctx)
	if err := errors.Join(append(users, e1, e2, e3, e4)...); err != nil {
		t.Fatal(err)
	}
}

// handsOver lets a second guard wait for a key of g.
func handsOver(t *testing.T, g *guard.Guard, c *clientv3.Client) {
	t.Helper()
	other, _ := newGuard(t, c, "guard/")
	testguard.HandsOver(t, g, other)
}

func TestErrorsAndCheckSayThatEtcdIsFull(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, 1, etcdtest.Settings{Quota: 4 << 20})[0]
	c := etcdtest.Client(t, m.Addr)
	g, _ := newGuard(t, c, "guard/")
	if err := g.Check(t.Context()); err != nil {
		t.Error(err)
	}
	var ls []*guard.Lease // each ends at a time of its own: on a busy machine the last answer may be late
	for n := range 5 {
		ttl := guard.WithTTL(10 * time.Second << n)
		l, err := g.With(ttl).Acquire(t.Context(), fmt.Sprint("k", n))
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		if _, err := c.Put(t.Context(), "fill", value); err != nil {
			break
		}
		if i > 100 {
			t.Fatal("it takes more than its quota")
		}
	}
	told := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "etcd answers, but is full") &&
			!strings.Contains(err.Error(), "no answer") && strings.Contains(err.Error(), "alarm disarm")
	}
	var cause error
	for _, l := range ls {
		if !told(cause) {
			<-l.Context().Done()
			cause = context.Cause(l.Context())
		}
		_ = l.Release(t.Context())
	}
	if !told(cause) {
		t.Errorf("the lease that was lost last: %v, want that etcd answers, and what to do", cause)
	}
	_, err := g.TryDo(t.Context(), "another", nothing)
	for n := 0; n < 10 && !told(err); n++ {
		_, err = g.TryDo(t.Context(), "another", nothing)
	}
	if !told(err) {
		t.Errorf("TryDo: %v, want that etcd answers, and what to do", err)
	}
	found, _ := locker.Findings(g.Check(t.Context()))
	if len(found) != 1 || found[0].Name != etcdlocker.FindingSpace || !strings.Contains(found[0].Text, "alarm disarm") {
		t.Errorf("Check: %v, want a finding %q", found, etcdlocker.FindingSpace)
	}
}

func TestHeldIsTrueForEachThatSharesAKey(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	data := prefix + "data"
	for name, opt := range map[string]guard.Option{"shared": guard.WithShared(), "permits": guard.WithPermits(3)} {
		var all [3]*guard.Lease
		var lockers [3]*etcdlocker.Locker
		for i := range all {
			var g *guard.Guard
			g, lockers[i] = newGuard(t, c, prefix, guard.WithMaxWait(testguard.Patience), guard.WithTTL(6*time.Second))
			var err error
			if all[i], err = g.With(opt).Acquire(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		holds := func(what string, want [3]bool) {
			t.Helper()
			for i, l := range all {
				if got := writes(l.Context(), t, c, lockers[i], data); got != want[i] {
					t.Errorf("%s: %s: Held of the owner %d holds: %v", name, what, i, got)
				}
			}
		}
		holds("at first", [3]bool{true, true, true})
		if err := all[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		holds("after a release", [3]bool{false, true, true})
		alone, _ := newGuard(t, c, prefix, guard.WithMaxWait(testguard.Patience))
		got := make(chan error, 1)
		go func() { got <- alone.Do(t.Context(), name, nothing) }() // ends with its one call
		testguard.Waiting(t, alone, name, 1)
		holds("while a claim waits", [3]bool{false, true, true})
		s, err := alone.Inspect(t.Context(), name)
		if err != nil || len(s.Owners) != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		for _, o := range s.Owners {
			if err := alone.ForceRelease(t.Context(), name, o.Owner); err != nil {
				t.Fatal(err)
			}
		}
		holds("after all were taken away", [3]bool{})
		if err := <-got; err != nil {
			t.Error(err)
		}
		for _, l := range all[1:] {
			<-l.Context().Done()
			_ = l.Release(t.Context()) // it was lost
		}
	}
}

// The lease under which a mark stands may end later than that of the row, which
// another process has written since.
func TestHeldIsFalseForAShareThatEndedWithItsRow(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	for name, opt := range map[string]guard.Option{"alone": guard.WithMaxHold(0), "shared": guard.WithShared()} {
		g, l := newGuard(t, c, prefix, guard.WithTTL(time.Minute))
		row := prefix + "{" + name + "}"
		ended := shareInRow(t, g, c, name, row)
		if _, err := c.Delete(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		next, nextLocker := newGuard(t, c, prefix)
		if err := next.With(opt).Do(t.Context(), name, func(ctx context.Context) error {
			if writes(ended.Context(), t, c, l, prefix+"data") || !writes(ctx, t, c, nextLocker, prefix+"data") {
				t.Errorf("%s: Held holds for an owner before, or not for the next", name)
			}
			return nil
		}); err != nil {
			t.Fatal(name, err)
		}
		_ = ended.Release(t.Context()) // it was lost
	}
}

// shareInRow acquires a share that stands in the row of its key. If a first
// request had no answer in time, the share of the second stands beside it.
func shareInRow(t *testing.T, g *guard.Guard, c *clientv3.Client, key, row string) *guard.Lease {
	t.Helper()
	for {
		l, err := g.With(guard.WithShared()).Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Get(t.Context(), row, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if all.Count == 2 { // the row and the mark of its lease
			return l
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
