package show

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var braces = regexp.MustCompile(`\{\w+\}`)

func TestTheLanguagesHaveTheSameTexts(t *testing.T) {
	values := func(text string) []string {
		return slices.Compact(slices.Sorted(slices.Values(braces.FindAllString(text, -1))))
	}
	for key, en := range languages["en"] {
		zh, found := languages["zh"][key]
		if !found {
			t.Errorf("%s is in English only", key)
		} else if !slices.Equal(values(en), values(zh)) {
			t.Errorf("%s has the values %v in English, %v in Chinese", key, values(en), values(zh))
		}
	}
	for key := range languages["zh"] {
		if _, found := languages["en"][key]; !found {
			t.Errorf("%s is in Chinese only", key)
		}
	}
}

// used returns what a pattern finds in files: its first group.
func used(text, pattern string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestEveryTextThatIsUsedIsThere(t *testing.T) {
	var keys []string
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			keys = append(keys, used(string(text), `say\((?:"(?:good|bad)?", )?"([\w.]+\w)"[,)]`)...)
			keys = append(keys, used(string(text), `fault\(.*?, "([\w.]+)"`)...)
		}
	}
	eachPageFile(t, func(_, text string) {
		keys = append(keys, used(text, `\bt\('([\w.]+\w)'[,)]`)...)
		keys = append(keys, used(text, `data-t(?:-label)?="([\w.]+)"`)...)
	})
	for _, key := range keys {
		if _, found := languages["en"][key]; !found {
			t.Errorf("there is no text %q", key)
		}
	}
	if len(keys) < 200 {
		t.Errorf("only %d found", len(keys))
	}
}

// eachPageFile calls got with the pages and scripts that are ours, but the
// languages.
func eachPageFile(t *testing.T, got func(name, text string)) {
	t.Helper()
	err := fs.WalkDir(page, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "lang/") || strings.HasPrefix(name, "vendor/") ||
			strings.HasSuffix(name, ".css") {
			return err
		}
		text, err := fs.ReadFile(page, name)
		got(name, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoTextOfThePageStandsOutsideTheLanguages(t *testing.T) {
	names := regexp.MustCompile(`^(app-[12]|none|lock|fence|atomic|m?s|[\d¼–]+( s)?)$`) // as flags and units have them
	eachPageFile(t, func(name, text string) {
		var found []string
		if name == "index.html" {
			found = used(text, `>\s*([^<>\s][^<>]*?)\s*<`)
			found = append(found, used(text, `(?:title|alt|aria-label|placeholder)="([^"]+)"`)...)
		} else {
			text = regexp.MustCompile(`(^|\s)//.*`).ReplaceAllString(text, "")
			found = used(text, "['`](\\p{L}[\\w$.{}]*(?: [\\w$.{},]+){2,}[^'`]*)['`]") // three words are a sentence
			found = append(found, used(text, "['`]([^'`]*\\p{Han}[^'`]*)['`]")...)
		}
		for _, f := range found {
			if f != "中文" && !names.MatchString(f) {
				t.Errorf("%s has %q", name, f)
			}
		}
	})
}
