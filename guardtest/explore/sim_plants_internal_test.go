package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/testsize"
)

// plants are the defects that a search must find, each as a patch in testdata.
// lab/simulation.md has the table.
var plants = []struct {
	patch string
	test  string // that finds it
}{
	{"release-any-owner", "TestSim/excl2"},
	{"try-refused-beside-answer", "TestSim/trypermits"},
	{"offer-unheard", "TestSim/atreplica"},
	{"offer-trusted-for-ttl", "TestSim/hold2"},
	{"offer-told-twice", "TestSim/atreplica"},
	{"renewal-from-answer", "TestSim/long"},
	{"forget-any-record", "TestSim/forget2"},
	{"renewal-creates-key", "TestSim/apart"},
	{"record-for-all", "TestSim/joins"},
	{"begin-without-mark", "TestSim/atmostonce"},
	{"offer-grows-at-once", "TestSim/replicahand"},
	{"offer-taken-late", "TestSimRows/nats/farheld"},
	{"rows-release-any-owner", "TestSimRows/zookeeper/excl2"},
	{"rows-token-of-old-read", "TestSimRows/postgres/excl2"},
	{"rows-held-for-record", "TestSimRows/etcd/once"},
	{"rows-head-of-record", "TestSimRows/etcd/longonce"},
	{"rows-offer-from-message", "TestSimRows/postgres/slowhand"},
	{"rows-ticket-comes-back", "TestSimRows/etcd/gaveup"},
	{"rows-waiter-stays", "TestSimRows/etcd/closewriter"},
	{"rows-share-comes-back", "TestSimRows/etcd/forceshare"},
	{"rows-one-permit-more", "TestSimRows/etcd/permits"},
	{"rows-written-over", "TestSimRows/etcd/shared"},
	{"lease-trusted-for-two", "TestSim/hold2"},
	{"all-keeps-first", "TestSim/three"},
}

// plantLimit is the time on one core in which a search finds a plant.
const plantLimit = time.Minute

// The search finds each planted defect by itself, and its replay line shows the
// defect again.
func TestSimFindsPlants(t *testing.T) {
	for _, p := range plants[:testsize.Pick(len(plants), 1)] {
		t.Run(p.patch, func(t *testing.T) {
			t.Setenv("SIM_LEVEL", "1")
			run := plant(t, "testdata/plants/"+p.patch+".patch")
			out, took := run(pattern(p.test))
			if !strings.Contains(out, "explore: broken") || took > plantLimit {
				t.Fatalf("not found in %v:\n%s", took, out)
			}
			t.Logf("found in %v: %s", took, regexp.MustCompile(`\d+ of \d+ runs|replay:.*`).FindAllString(out, -1))
			line := regexp.MustCompile(`replay: EXPLORE='(.*)' go test`).FindStringSubmatch(out)
			if line == nil {
				return // it is broken without a fault
			}
			t.Setenv("EXPLORE", line[1])
			if again, _ := run(pattern(p.test)); !strings.Contains(again, "BROKEN") {
				t.Errorf("its line does not show it again:\n%s", again)
			}
		})
	}
}

// plant builds the tests with a patch. run runs some of them, and returns what
// they print, and the time that they took on a core.
func plant(t *testing.T, patch string) (run func(tests string) (out string, took time.Duration)) {
	t.Helper()
	dir := t.TempDir()
	file, text := patched(t, patch)
	args := []string{"test", "-c", "-vet=off", "-o", filepath.Join(dir, "test")}
	if strings.HasSuffix(file, ".lua") {
		t.Setenv("SIM_PLANT", patch) // the server runs it
	} else {
		changed, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
		data, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
		for name, content := range map[string][]byte{changed: []byte(text), overlay: data} {
			if err == nil {
				err = os.WriteFile(name, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func(tests string) (string, time.Duration) {
		cmd := exec.Command(filepath.Join(dir, "test"), "-test.run", tests, "-test.v")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
		out, _ := cmd.CombinedOutput() // which fail
		return string(out), cmd.ProcessState.UserTime()
	}
}

// patched returns the file that a patch changes, and the file's new text.
func patched(t *testing.T, patch string) (file, text string) {
	t.Helper()
	name, hunks := readPatch(patch)
	file, err := filepath.Abs("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = string(old)
	for _, h := range hunks {
		if strings.Count(text, h.old) != 1 {
			t.Fatalf("%s does not fit %s: it has not this once:\n%s", patch, name, h.old)
		}
		text = strings.Replace(text, h.old, h.new, 1)
	}
	return file, text
}

type hunk struct{ old, new string }

func readPatch(patch string) (file string, hunks []hunk) {
	data, err := os.ReadFile(patch)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = strings.TrimSpace(name)
			continue
		}
		if line[0] == '@' {
			hunks = append(hunks, hunk{})
			continue
		}
		if len(hunks) == 0 {
			continue
		}
		h := &hunks[len(hunks)-1]
		if line[0] != '+' {
			h.old += line[1:]
		}
		if line[0] != '-' {
			h.new += line[1:]
		}
	}
	return file, hunks
}

// plantedHunks are those of SIM_PLANT, a patch of a source of scripts.
var plantedHunks = sync.OnceValue(func() (hunks []hunk) {
	if patch := os.Getenv("SIM_PLANT"); patch != "" {
		_, hunks = readPatch(patch)
	}
	return hunks
})

// planted is a script as the server runs it.
func planted(text string) string {
	for _, h := range plantedHunks() {
		text = strings.Replace(text, h.old, h.new, 1)
	}
	return text
}
