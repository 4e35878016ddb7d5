package checks

import (
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/packages"
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

// Comments such as // want `a regular expression` `another one` say what is
// reported on their line. Package analysistest would read all imports from
// source, which takes a hundred times as long.
func TestMistakesAreReportedAndNothingElse(t *testing.T) {
	dir := workspace(t)
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir, Tests: true,
		Env: append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work")),
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		t.Fatal("the testdata does not compile")
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{all}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string][]string{} // by line
	wanted := map[string][]string{}
	for _, act := range graph.Roots {
		if act.Err != nil {
			t.Fatal(act.Err)
		}
		at := func(pos token.Pos) string {
			p := act.Package.Fset.Position(pos)
			return fmt.Sprintf("%s:%d", strings.TrimPrefix(p.Filename, dir), p.Line)
		}
		for _, d := range act.Diagnostics {
			if line := at(d.Pos); !slices.Contains(reported[line], d.Message) { // a package and its test
				reported[line] = append(reported[line], d.Message)
			}
		}
		for _, f := range act.Package.Syntax {
			for _, group := range f.Comments {
				for _, c := range group.List {
					line := at(c.Pos())
					if patterns := wants(t, line, c.Text); len(patterns) > 0 {
						wanted[line] = patterns
					}
				}
			}
		}
	}
	if n := len(wanted); n < 100 {
		t.Errorf("only %d lines with mistakes", n)
	}
	compare(t, wanted, reported)
}

// wants returns the patterns of a comment.
func wants(t *testing.T, line, comment string) (patterns []string) {
	t.Helper()
	_, rest, _ := strings.Cut(comment, "// want ")
	if !strings.HasPrefix(comment, "// want ") && !strings.Contains(comment, " // want ") {
		return nil
	}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s: %q: %v", line, rest, err)
		}
		pattern, _ := strconv.Unquote(quoted)
		patterns, rest = append(patterns, pattern), rest[len(quoted):]
	}
	return patterns
}

// compare fails t for each pattern without a report, and each report without a
// pattern.
func compare(t *testing.T, wanted, reported map[string][]string) {
	t.Helper()
	for line, patterns := range wanted {
		for _, pattern := range patterns {
			re := regexp.MustCompile(pattern)
			i := slices.IndexFunc(reported[line], re.MatchString)
			if i < 0 {
				t.Errorf("%s: nothing is reported that matches %q; reported: %q", line, pattern, reported[line])
				continue
			}
			reported[line] = slices.Delete(reported[line], i, i+1)
		}
	}
	for line, all := range reported {
		for _, message := range all {
			t.Errorf("%s: reported, and not wanted: %s", line, message)
		}
	}
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
