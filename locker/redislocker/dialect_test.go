package redislocker_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// in returns the error of Check on a server of a dialect.
func in(t *testing.T, d redistest.Dialect) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		err = open(t, redistest.MiniredisDialect(t, d)).Check(t.Context(), ttl)
	})
	return err
}

// wantContent wants no finding in the error of Check, but that the server in
// memory has no word on eviction.
func wantContent(t *testing.T, err error) {
	t.Helper()
	found, err := locker.Findings(err)
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Name != redislocker.FindingEviction {
			t.Error(f)
		}
	}
}

func TestCheckIsContentWithAServerThatOnlySpeaksRESP2(t *testing.T) {
	wantContent(t, in(t, redistest.Dialect{}))
}

func TestCheckIsContentWhereScriptsNeedKeys(t *testing.T) {
	wantContent(t, in(t, redistest.Dialect{NoKeyless: true}))
}

func TestCheckFindsThatScriptsMayNotPublish(t *testing.T) {
	text := wantFinding(t, in(t, redistest.Dialect{NoPublish: true}), redislocker.FindingMessages, locker.Warn)
	if !strings.Contains(text, "+publish") || !strings.Contains(text, "in scripts") {
		t.Errorf("%q, want it to name PUBLISH in scripts", text)
	}
}

func TestCheckRefusesAServerWhoseScriptsAreNotOneStep(t *testing.T) {
	text := wantFinding(t, in(t, redistest.Dialect{Steps: true}), redislocker.FindingScripts, locker.Refuse)
	if !strings.Contains(text, "lua-transaction-mode") {
		t.Errorf("%q, want it to say what to change", text)
	}
}

// Redis Enterprise and Azure tell of an Active-Active database in a section of
// their own, KeyDB by its role.
func TestCheckRefusesAServerThatIsOneOfSeveralWriters(t *testing.T) {
	for name, section := range map[string][2]string{
		"Active-Active":  {"crdt", "# CRDT Context\r\ncrdt_config_version:2\r\ncrdt_slots:0-16383\r\n"},
		"active-replica": {"replication", "# Replication\r\nrole:active-replica\r\nmaster_link_status:up\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			err := in(t, redistest.Dialect{Info: map[string]string{section[0]: section[1]}})
			text := wantFinding(t, err, redislocker.FindingWriters, locker.Refuse)
			if !strings.Contains(text, name) || !strings.Contains(text, "one primary") {
				t.Errorf("%q, want it to say how it knows, and what to change", text)
			}
		})
	}
}

func TestCheckIsContentWithAPrimaryThatAloneWrites(t *testing.T) {
	for section, text := range map[string]string{
		"crdt":        "# CRDT Context\r\n",
		"replication": "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n",
	} {
		wantContent(t, in(t, redistest.Dialect{Info: map[string]string{section: text}}))
	}
}

// The provider of a server may take commands away that a client likes to have.
func TestCheckIsContentWithoutCommandsThatLeasesDoNotNeed(t *testing.T) {
	for _, command := range []string{"client", "hello", "acl", "config", "script", "function", "wait"} {
		s := redistest.Start(t, "--rename-command", command, "")
		if err := open(t, redistest.Client(t, s.Addr)).Check(t.Context(), ttl); err != nil {
			t.Errorf("without %s: %v", command, err)
		}
	}
	for _, command := range []string{"time", "eval", "evalsha", "pexpire"} {
		s := redistest.Start(t, "--rename-command", command, "")
		err := open(t, redistest.Client(t, s.Addr)).Check(t.Context(), ttl)
		if text := wantFinding(t, err, redislocker.FindingRights, locker.Refuse); !strings.Contains(text, "+"+command) {
			t.Errorf("without %s: %q", command, text)
		}
	}
}

// Check may stand in a readiness probe of each process.
func TestCheckTriesOnceWhetherScriptsAreOneStep(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	l := open(t, redistest.Client(t, p.Addr))
	for n, want := range []bool{true, false} {
		p.Reset()
		if err := l.Check(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
		if tried := p.Commands()["EXISTS"] > 100; tried != want {
			t.Errorf("check %d sends %v, want it to try: %v", n+1, p.Commands(), want)
		}
	}
}
