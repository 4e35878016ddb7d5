package show

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// text is something to be read: its name in the files of page/lang, and values
// for what is in {braces} there. A text that depends on the number n has two
// forms, "one|many".
type text struct {
	Key  string            `json:"k"`
	Args map[string]string `json:"a,omitempty"`
}

// say returns a text. The args are names and values, in turn.
func say(key string, args ...any) text {
	t := text{key, map[string]string{}}
	for pair := range slices.Chunk(args, 2) {
		t.Args[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
	}
	return t
}

// languages has the texts of each file of page/lang: JSON behind "texts.en =",
// so that the page can read them too.
var languages = map[string]map[string]string{"en": readTexts("en"), "zh": readTexts("zh")}

func readTexts(lang string) (texts map[string]string) {
	file, err := fs.ReadFile(page, "lang/"+lang+".js")
	_, object, _ := bytes.Cut(file, []byte("="))
	if err := errors.Join(err, json.Unmarshal(object, &texts)); err != nil {
		panic(err) // embedded
	}
	return texts
}

// in returns the text in a language; "" is English.
func (t text) in(lang string) string {
	s := languages[cmp.Or(lang, "en")][t.Key]
	if one, many, two := strings.Cut(s, "|"); two && t.Args["n"] == "1" {
		s = one
	} else if two && t.Args["n"] != "" {
		s = many
	}
	for name, value := range t.Args {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s
}

// Error makes a text the error of what it tells.
func (t text) Error() string { return t.in("en") }

// textOf returns an error as a text, which one of somebody else is too.
func textOf(err error) text {
	if t, ok := err.(text); ok { //nolint:errorlint // what is wrapped is not all of it
		return t
	}
	return say("error.other", "error", err)
}
