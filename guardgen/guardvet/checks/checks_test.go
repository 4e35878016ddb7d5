package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// all is every analyzer in one, so that each is also tested on the code for the
// others.
var all = &analysis.Analyzer{
	Name:     "all",
	Doc:      "runs all analyzers",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, a := range All() {
			if _, err := a.Run(pass); err != nil {
				return nil, err
			}
		}
		return nil, nil
	},
}

func TestMistakesAreReportedAndNothingElse(t *testing.T) {
	analysistest.Run(t, workspace(t), all, "./...")
}

func TestEachAnalyzerHasTestdataAndALineInTheDocuments(t *testing.T) {
	if err := analysis.Validate(All()); err != nil {
		t.Error(err)
	}
	for _, a := range All() {
		if _, err := os.Stat(filepath.Join("testdata", a.Name)); err != nil {
			t.Error(err)
		}
		for _, readme := range []string{"../../README.md", "../../README.zh-CN.md"} {
			text, err := os.ReadFile(readme)
			if err != nil || !strings.Contains(string(text), "\n| `"+a.Name+"` | ") {
				t.Errorf("%s does not tell of %s: %v", readme, a.Name, err)
			}
		}
	}
}

// workspace makes a module of testdata which uses the checkout around it, and
// returns its directory.
func workspace(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/shop\n\ngo 1.25.0\n",
		"go.work": fmt.Sprintf("go 1.25.0\n\nuse (\n\t.\n\t%q\n\t%q\n)\n", root,
			filepath.Join(root, "middleware", "grpc")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...") // downloads what analysistest does not
	list.Dir = dir
	list.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := list.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
