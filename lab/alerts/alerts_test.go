// Package alerts_test tries tracing/alerts.yaml with promtool.
package alerts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const rules, cases = "alerts.yaml", "alerts_test.yaml"

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "tracing", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool checks the rules and runs their tests.
func promtool(t *testing.T, text string) (said string, err error) {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{rules: text, cases: read(t, cases)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", cases}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out), err
		}
	}
	return "", nil
}

func TestEachAlertFiresWhenItShould(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatal("no promtool: install it (Debian, Ubuntu: prometheus)")
	}
	text := read(t, rules)
	if said, err := promtool(t, text); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	_, tests, _ := strings.Cut(read(t, cases), "\ntests:\n")
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(text, -1) {
		fires := regexp.MustCompile(`alertname: ` + alert[1] + `\n *exp_alerts:`).MatchString(tests)
		if quiet := strings.Contains(tests, "alertname: "+alert[1]+" }"); !fires || !quiet {
			t.Errorf("%s: a test in which it fires: %v, in which it does not: %v", alert[1], fires, quiet)
		}
	}
}

func TestWrongRulesAreFound(t *testing.T) {
	for name, fault := range map[string][2]string{
		"leaders and long jobs": {"> 0.5 * guard_hold_limit_seconds", "> 30"},
		"a first increment": {
			"(guard_leases_lost_total unless guard_leases_lost_total offset 5m) or ", "",
		},
		"no end":        {"increase(guard_leases_lost_total[5m])", "guard_leases_lost_total"},
		"no leases":     {`(guard_leases{guard_name=~"leader.*"}) > 0`, `(guard_leases{guard_name=~"leader.*"})`},
		"no leaders":    {`guard_waiters{guard_name=~"leader.*"}`, "guard_waiters"},
		"an outcome":    {`"unguarded"`, `"unguided"`},
		"at once":       {"for: 1m", "for: 0s"},
		"no expression": {"expr: guard_hold", "exp: guard_hold"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := strings.Replace(read(t, rules), fault[0], fault[1], 1)
			if wrong == read(t, rules) {
				t.Fatalf("%s lacks %q", rules, fault[0])
			}
			if _, err := promtool(t, wrong); err == nil {
				t.Error("promtool finds nothing wrong")
			}
		})
	}
}
