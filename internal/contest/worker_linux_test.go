package contest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard/internal/judge"
)

func TestAFileThatIsLeftIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := &Worker{}, t.TempDir()
		open := func(name string) {
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
		}
		open("before") // the first file of a process has the runtime open others
		w.before = census()
		open("left")
		var r judge.Record
		if w.leftovers(&r); r.Files != 1 || !strings.Contains(r.Err, filepath.Join(dir, "left")) {
			t.Errorf("%d files: %s", r.Files, r.Err)
		}
	})
}
