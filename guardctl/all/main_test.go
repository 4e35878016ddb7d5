package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardctl/internal/ctl"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Main(func() int {
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
		return code
	}))
}

func TestAnOperatorSeesAndFreesAKeyInEtcd(t *testing.T) {
	freesAKey(t, "etcd://"+etcdtest.Start(t, 1, etcdtest.Settings{})[0].Addr)
}

func TestAnOperatorSeesAndFreesAKeyInZooKeeper(t *testing.T) {
	freesAKey(t, "zk://"+zktest.Start(t, 1, zktest.Settings{})[0].Addr)
}

func TestAnOperatorSeesAndFreesAKeyInNATS(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it builds the server first
	defer cancel()
	servers, err := natstest.New(ctx, 1, t.TempDir(), natstest.Settings{})
	for _, s := range servers {
		defer s.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := natstest.Create(ctx, servers[0].Addr, natstest.Config("guard", 1)); err != nil {
		t.Fatal(err)
	}
	freesAKey(t, "nats://"+servers[0].Addr+"/guard")
}

func TestAnOperatorSeesAndFreesAKeyInPostgreSQL(t *testing.T) {
	server, err := sqltest.StartPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	freesAKey(t, server.URL)
}

func TestAnOperatorSeesAndFreesAKeyInMySQL(t *testing.T) {
	server, err := sqltest.StartMySQL("innodb-flush-log-at-trx-commit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	freesAKey(t, server.URL)
}

func TestAnOperatorSeesAndFreesAKeyInSQLite(t *testing.T) {
	freesAKey(t, "sqlite:"+filepath.Join(t.TempDir(), "locks.db"))
}

// A hand deletes the marker of the owner's node. The lease of a holder that
// does not come back is freed by the owner that the command line shows.
func TestAnOperatorFreesAKeyInZooKeeperWhoseMarkIsGone(t *testing.T) {
	addr := zktest.Start(t, 1, zktest.Settings{})[0].Addr
	dsn := "zk://" + addr
	conn, err := zktest.Dial(10*time.Second, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l, err := locker.FromDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	c := &locker.Claim{Key: "stock:42", Owner: strings.Repeat("A", locker.OwnerLen), TTL: time.Minute}
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
	node := "/guard/k/b/c3RvY2s6NDI" // see layout.go of zookeeperlocker
	marks, _, err := conn.Children(node)
	if err != nil || len(marks) != 1 {
		t.Fatalf("below the key stand %v, want one marker: %v", marks, err)
	}
	if err := conn.Delete(node+"/"+marks[0], -1); err != nil {
		t.Fatal(err)
	}
	wants(t, dsn, c.Owner, "show", "stock:42")
	wants(t, dsn, "released", "release", "--owner", c.Owner, "--yes", "stock:42")
	wants(t, dsn, "nobody", "show", "stock:42")
}

// deaf is a Waker that hears nothing.
type deaf struct{ lockerkit.Deaf }

// freesAKey holds a key in the store, and takes it from its holder by the
// command line.
func freesAKey(t *testing.T, dsn string) {
	t.Helper()
	l, err := locker.FromDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if tables, ok := l.(interface {
		Migrate(ctx context.Context) error
	}); ok {
		if err := tables.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g, err := guard.New(l, guard.WithName("holder"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	err = g.Do(t.Context(), "stock:42", func(context.Context) error {
		wants(t, dsn, "1 held, 0 waiting", "ls")
		wants(t, dsn, "holder", "show", "stock:42")
		wants(t, dsn, "released", "release", "--yes", "stock:42")
		return nil
	})
	if err != nil && !errors.Is(err, guard.ErrLeaseLost) {
		t.Error(err)
	}
	wants(t, dsn, "0 held, 0 waiting", "ls")
	wants(t, dsn, "nobody", "show", "stock:42")
	command := []string{"run", "stock:42", "--", "sh", "-c", "echo ran $GUARD_KEY"}
	wants(t, dsn, "ran stock:42", command...)
	if l.Capabilities().Records {
		once := slices.Insert(command, 1, "--once", "1h")
		wants(t, dsn, "ran stock:42", once...)
		wants(t, dsn, "nothing was run", once...)
	}
	proves(t, dsn)
	testguard.Eventually(t, "check is ok", func() bool { // a slow machine looks like a server that is far away
		status, out := run(t, dsn, "check")
		ok := status == 0 && strings.Contains(out, "ok")
		if !ok && !strings.Contains(out, "round-trip") {
			t.Fatalf("check: status %d, %s", status, out)
		}
		return ok
	})
}

// proves lets guardctl prove the store, and wants it to be left clean. In
// short, one store stands for all.
func proves(t *testing.T, dsn string) {
	t.Helper()
	if testsize.Pick(true, strings.HasPrefix(dsn, "sqlite:")) {
		status, out := run(t, dsn, "prove", "--time", "5s", "--ttl", "4s")
		if t.Log(out); status != 0 || !strings.Contains(out, "Proven: nothing was violated") {
			t.Errorf("prove: status %d", status)
		}
		wants(t, dsn, "0 held, 0 waiting", "ls")
	}
}

// wants runs a command line on the store and wants its output to have text.
func wants(t *testing.T, dsn, text string, args ...string) {
	t.Helper()
	if status, out := run(t, dsn, args...); status != 0 || !strings.Contains(out, text) {
		t.Errorf("%v: status %d, want 0 and %q\n%s", args, status, text, out)
	}
}

// run returns the status and the output of a command line on the store.
func run(t *testing.T, dsn string, args ...string) (status int, out string) {
	t.Helper()
	var text bytes.Buffer
	args = append([]string{"guardctl", "--url", dsn}, args...)
	status = ctl.Run(t.Context(), args, strings.NewReader(""), &text, &text)
	return status, text.String()
}
