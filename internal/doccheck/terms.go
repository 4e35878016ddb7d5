package doccheck

import (
	"fmt"
	"regexp"
	"strings"
)

// rejection is the part of a glossary's line with the words not to use.
var rejection = regexp.MustCompile(`不写((?:「[^」]+」)+)`)

// RejectedWords returns the words that the glossary on a page rejects.
func RejectedWords(glossary *Page) []string {
	var words []string
	for _, s := range glossary.Sections {
		for _, m := range rejection.FindAllStringSubmatch(s.Prose, -1) {
			words = append(words, strings.Split(strings.Trim(m[1], "「」"), "」「")...)
		}
	}
	return words
}

// Misworded returns the places in the Chinese pages that use one of the words,
// outside the glossary.
func Misworded(pages []*Page, words []string) []string {
	var found []string
	for _, p := range pages {
		if !strings.HasSuffix(p.Path, Translation) {
			continue
		}
		for _, s := range p.Sections {
			texts := []string{s.Title, rejection.ReplaceAllString(s.text(), "")}
			for _, b := range s.Blocks {
				texts = append(texts, b.Text)
			}
			text := strings.Join(texts, "\n")
			for _, word := range words {
				if strings.Contains(text, word) {
					found = append(found, fmt.Sprintf("%s:%d: the glossary rejects %s", p.Path, s.Line, word))
				}
			}
		}
	}
	return found
}
