package doccheck

import (
	"fmt"
	"slices"
	"strings"
)

// glossary is the header of the table with the words of the Chinese pages. The
// words of its last column, with 、 between them, are not to be used.
var glossary = []string{"English", "Chinese", "Not"}

// RejectedWords returns the words that the glossary on a page rejects.
func RejectedWords(p *Page) []string {
	var words []string
	for _, s := range p.Sections {
		for _, t := range s.Tables {
			if !slices.Equal(t.Rows[0], glossary) {
				continue
			}
			for _, row := range t.Rows[1:] {
				if not := row[len(row)-1]; not != "" {
					words = append(words, strings.Split(not, "、")...)
				}
			}
		}
	}
	return words
}

// Misworded returns the places in the Chinese pages that use one of the words.
func Misworded(pages []*Page, words []string) []string {
	var found []string
	for _, p := range pages {
		if !strings.HasSuffix(p.Path, Translation) {
			continue
		}
		for _, s := range p.Sections {
			texts := []string{s.Title, s.text()}
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
