package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// guardgen runs the program in dir, checks the exit status, and returns the
// output.
func guardgen(t *testing.T, want int, dir string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	if got := run(dir, args, &stderr); got != want {
		t.Fatalf("guardgen %q: exit status %d, want %d:\n%s", args, got, want, stderr.String())
	}
	return stderr.String()
}

func get(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheFileFollowsTheDirectives(t *testing.T) {
	dir := module(t, map[string]string{"m.go": head + good})
	source, out := filepath.Join(dir, "m.go"), filepath.Join(dir, fileName)

	if text := guardgen(t, exitFailed, dir, "-check"); !strings.Contains(text, "stale, run go generate") ||
		!strings.Contains(text, fileName) {
		t.Errorf("-check says %q of a file that is missing", text)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("-check has written")
	}

	guardgen(t, exitOK, dir)
	first := get(t, out)
	guardgen(t, exitOK, dir, "-check")
	long := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(out, long, long); err != nil {
		t.Fatal(err)
	}
	guardgen(t, exitOK, dir)
	if i, err := os.Stat(out); err != nil || !i.ModTime().Equal(long) {
		t.Errorf("a file that is up to date is written: %v, %v", i.ModTime(), err)
	}
	if !strings.HasPrefix(first, header) || !strings.Contains(first, "func GuardStock(") {
		t.Errorf("got %s", first)
	}

	put(t, source, head+strings.ReplaceAll(good, "stock:", "stocks:"))
	guardgen(t, exitFailed, dir, "-check")
	if get(t, out) != first {
		t.Error("-check has written")
	}
	guardgen(t, exitOK, dir)
	if second := get(t, out); !strings.Contains(second, `Key("stocks", sku)`) {
		t.Errorf("got %s", second)
	}

	put(t, source, head+strings.ReplaceAll(good, "//guard:lock", "// was guarded by"))
	guardgen(t, exitFailed, dir, "-check")
	guardgen(t, exitOK, dir)
	if _, err := os.Stat(out); err == nil {
		t.Error("the file is there without a directive")
	}
	guardgen(t, exitOK, dir, "-check")
}

func TestWhatIsGeneratedDoesNotDependOnWhatWasThere(t *testing.T) {
	// The package does not compile without its decorator. b does not compile
	// without the decorator of z, which comes later in the alphabet.
	dir := module(t, map[string]string{
		"m.go": head + good + "\nvar _ = GuardStock(nil, nil)\n",
		"b/b.go": "package b\n\nimport z \"example.com/m/z\"\n\nvar X = z.GuardStock(nil, nil)\n\ntype Y " +
			"interface {\n\tz.Stock\n}\n",
		"z/z.go":     strings.Replace(head, "package m", "package z", 1) + good,
		"plain/p.go": "package plain\n",
	})
	guardgen(t, exitOK, dir, "./b")
	guardgen(t, exitOK, dir, "./...")
	files := []string{fileName, filepath.Join("b", fileName), filepath.Join("z", fileName)}
	want := map[string]string{}
	for _, name := range files {
		want[name] = get(t, filepath.Join(dir, name))
	}
	if !strings.Contains(want[files[1]], "func GuardY(") {
		t.Errorf("the directives of an embedded interface of another package are lost: %s", want[files[1]])
	}
	if _, err := os.Stat(filepath.Join(dir, "plain", fileName)); err == nil {
		t.Error("a package without directives has got a file")
	}
	for _, rubbish := range []string{
		"\npackage m\n\nfunc GuardStock(int) {}\n",
		"\npackage m\n\nimport \"example.com/gone\"\n\nvar _ = gone.X\n",
		"\npackage m\n\n<<<<<<< ours\nfunc GuardStock() {}\n=======\n",
		"\npackage m\n\nimport (\n<<<<<<< ours\n\t\"time\"\n=======\n)\n",
	} {
		put(t, filepath.Join(dir, fileName), header+rubbish)
		guardgen(t, exitOK, dir)
		if got := get(t, filepath.Join(dir, fileName)); got != want[fileName] {
			t.Errorf("after\n%s\ngot\n%s\nwant\n%s", rubbish, got, want[fileName])
		}
	}
}

// Types behind a build tag have their decorators behind it. Without the tag the
// package builds, and the file stays.
func TestTheFileHasTheConstraintOfItsTypes(t *testing.T) {
	const tagged = "//go:build pro\n\n"
	dir := module(t, map[string]string{"m.go": "package m\n", "pro.go": tagged + head + good})
	guardgen(t, exitOK, dir)
	if _, err := os.Stat(filepath.Join(dir, fileName)); err == nil {
		t.Error("without the tag there is nothing to guard")
	}
	t.Setenv("GOFLAGS", "-tags=pro")
	guardgen(t, exitOK, dir)
	text := get(t, filepath.Join(dir, fileName))
	if !strings.HasPrefix(text, header+"\n"+tagged+"package m\n") {
		t.Errorf("got %s", text)
	}
	guardgen(t, exitOK, dir, "-check")
	t.Setenv("GOFLAGS", "")
	guardgen(t, exitOK, dir, "-check")
	guardgen(t, exitOK, dir)
	if get(t, filepath.Join(dir, fileName)) != text {
		t.Error("without the tag the file is written anew")
	}
	put(t, filepath.Join(dir, "free.go"), head+strings.ReplaceAll(good, "Stock", "Free"))
	t.Setenv("GOFLAGS", "-tags=pro")
	if text := guardgen(t, exitFailed, dir); !strings.Contains(text, `give their files one build constraint`) {
		t.Errorf("two constraints in one file: got %q", text)
	}
}

func TestAForeignFileIsLeftAlone(t *testing.T) {
	const foreign = "package m\n\nvar mine int\n"
	dir := module(t, map[string]string{"m.go": head + good, fileName: foreign})
	for _, args := range [][]string{nil, {"-check"}} {
		text := guardgen(t, exitFailed, dir, args...)
		if !strings.Contains(text, fileName+":1:1: guardgen has not written this file") ||
			get(t, filepath.Join(dir, fileName)) != foreign {
			t.Errorf("%q says %q", args, text)
		}
	}
}

func TestSourcesThatCannotBeReadAreAnError(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"syntax":  {head + good + "\nfunc {\n", "m.go:12:6: "},
		"package": {head + good + "\nimport \"fmt\"\n", "m.go:12:1: "},
		"import": {strings.Replace(head, "import", "import \"example.com/gone\"\nimport", 1) +
			strings.Replace(good, "sku string", "sku gone.T", 1), "m.go:3:8: could not import example.com/gone"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{"m.go": c.source})
			if text := guardgen(t, exitFailed, dir); !strings.Contains(text, c.want) {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, fileName)); err == nil {
				t.Error("written")
			}
		})
	}
	dir := module(t, nil)
	guardgen(t, exitFailed, dir, "./nowhere")
	guardgen(t, exitUsage, dir, "-nix")
}
