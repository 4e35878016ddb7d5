package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-lockguard/guard/examples/flashsale/show"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// instanceEnv makes this program an app instance, see show.Main.
const instanceEnv = "FLASHSALE_INSTANCE"

func TestMain(m *testing.M) {
	if os.Getenv(instanceEnv) != "" {
		os.Exit(show.Main(nil, os.Stdout, os.Stderr))
	}
	os.Exit(etcdtest.Main(m.Run))
}

func TestNothingIsOversoldWithLeasesInEtcd(t *testing.T) {
	sells(t, "etcd://"+etcdtest.Start(t, 1, etcdtest.Settings{})[0].Addr)
}

func TestNothingIsOversoldWithLeasesInZooKeeper(t *testing.T) {
	sells(t, "zk://"+zktest.Start(t, 1, zktest.Settings{})[0].Addr)
}

func TestNothingIsOversoldWithLeasesInPostgreSQL(t *testing.T) {
	server, err := sqltest.StartPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	sells(t, server.URL)
}

func TestNothingIsOversoldWithLeasesInMySQL(t *testing.T) {
	server, err := sqltest.StartMariaDB()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	sells(t, server.URL)
}

func TestNothingIsOversoldWithLeasesInSQLite(t *testing.T) {
	sells(t, "sqlite:"+filepath.Join(t.TempDir(), "locks.db"))
}

// sells plays a sale of more requests than items, with fencing tokens. Its exit
// status says that the books balance and all is sold.
func sells(t *testing.T, dsn string) {
	t.Helper()
	var out, errs bytes.Buffer
	status := show.Main([]string{
		"-locker", dsn, "-instances", "3", "-requests", "90", "-stock", "30", "-concurrency", "12",
		"-ttl", "30s", "-wait", "2m", "-json",
	}, &out, &errs)
	var r struct {
		Sold, Oversold, Orders int
		LostUpdates            int `json:"lost_updates"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if status != 0 || r.Sold != 30 || r.Orders != 30 || r.Oversold != 0 || r.LostUpdates != 0 {
		t.Errorf("status %d, %+v\n%s", status, r, &errs)
	}
}
