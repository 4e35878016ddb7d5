package doccheck

import (
	"fmt"
	"path"
	"strings"
)

// MissingCode returns the blocks of Go in the pages that are in no Go file
// below root and that no comment excuses. It ignores indentation. The
// paragraphs of a block may be in different places of one directory. Blocks
// that are whole files are not checked here, because other checks compile them.
// Nor are translations, because they are compared with their originals.
func MissingCode(root string, pages []*Page) ([]string, error) {
	files := map[string][]string{}
	err := walk(root, ".go", func(file string, text []byte) {
		files[path.Dir(file)] = append(files[path.Dir(file)], flatten(string(text)))
	})
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for dir, texts := range files {
		dirs[dir] = strings.Join(texts, "\n\n")
	}
	var missing []string
	for _, p := range pages {
		if strings.HasSuffix(p.Path, Translation) {
			continue
		}
		for _, s := range p.Sections {
			for _, b := range s.Blocks {
				if b.Lang == "go" && !b.excused() && !stands(flatten(b.Text), dirs) {
					missing = append(missing, fmt.Sprintf("%s:%d: in no Go file:\n%s", p.Path, b.Line, b.Text))
				}
			}
		}
	}
	return missing, nil
}

func stands(block string, dirs map[string]string) bool {
	for _, code := range dirs {
		if standsIn(block, code) {
			return true
		}
	}
	return false
}

func standsIn(block, code string) bool {
	if strings.Contains(code, block) {
		return true
	}
	for part := range strings.SplitSeq(block, "\n\n") {
		if !strings.Contains(code, part) {
			return false
		}
	}
	return true
}

// flatten takes the indentation from each line.
func flatten(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
