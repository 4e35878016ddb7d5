package docs_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	_ "github.com/go-lockguard/guard/middleware/gin" // so that the result is not taken from the cache if it changes
)

// The program of the README, run as it stands there but for its addresses.

// quickStart builds the program of a README, with each old text replaced by the
// new one behind it.
func quickStart(t *testing.T, readme string, replace ...string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	for _, section := range load(t, readme).Sections {
		for _, b := range section.Blocks {
			if !strings.HasPrefix(b.Text, "package main\n") {
				continue
			}
			for i := 0; i < len(replace); i += 2 {
				if !strings.Contains(b.Text, replace[i]) {
					t.Fatalf("%s: the program has no %s", readme, replace[i])
				}
			}
			if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(b.Text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// As if it were in this module, whose requirements it has.
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here,
		"quickstart", "main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "quickstart")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o",
		binary, "./quickstart")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTheQuickStartLeavesNoKeyOnSIGTERM(t *testing.T) {
	store, addr := redistest.Start(t), freeAddr(t)
	rdb := redistest.Client(t, store.Addr)
	entered, leave := make(chan struct{}), make(chan struct{})
	section := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	defer section.Close()
	binary := quickStart(t, "../README.md", `"localhost:6379"`, `"`+store.Addr+`"`, `":8080"`, `"`+addr+`"`,
		"\t// This request has the sku to itself until c.Request.Context() ends: pass that on.\n",
		"\t_, _ = http.Get(\""+section.URL+"\")\n")

	var output bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process, which ends with t

	testguard.Eventually(t, "it takes connections", func() bool { return listens(addr) })
	status := make(chan int, 1)
	go func() { status <- post("http://" + addr + "/skus/4711/deduct") }()
	<-entered
	if n := rdb.Exists(t.Context(), "guard:{stock:4711}").Val(); n != 1 {
		t.Error("no key while the handler runs")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testguard.Eventually(t, "it takes no more connections", func() bool { return !listens(addr) })
	close(leave)
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("the request under way got %d", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v\n%s", err, &output)
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left in Redis: %q", keys)
	}
}

func TestTheQuickStartRefusesARedisThatLosesLocks(t *testing.T) {
	store := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	binary := quickStart(t, "../README.zh-CN.md", `"localhost:6379"`, `"`+store.Addr+`"`,
		`":8080"`, `"`+freeAddr(t)+`"`)
	out, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "maxmemory-policy") {
		t.Errorf("it ended with %v\n%s", err, out)
	}
}

func post(url string) (status int) {
	resp, err := http.Post(url, "", nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
