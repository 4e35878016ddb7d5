package httpguard

import (
	"fmt"

	"github.com/go-lockguard/guard/keyfunc"
)

// Template returns what text says, for an adapter's Key. It panics if text is
// no template, or has no placeholder: nearly always that is a misspelled one,
// which would make one lock of all requests without a word.
func Template(text string) *keyfunc.Template {
	t := parse(text)
	if t.Constant() {
		panic(fmt.Sprintf("lockmw: template %q has no placeholder like {sku}, so all requests would wait for one key. "+
			"If you mean that, use lockmw.Static instead of lockmw.Key", text))
	}
	return t
}

// Constant returns the key that text stands for, for an adapter's Static. It
// panics if text is no template, or has a placeholder.
func Constant(text string) (key string) {
	t := parse(text)
	if !t.Constant() {
		panic(fmt.Sprintf("lockmw: the key %q of Static has a placeholder: use lockmw.Key", text))
	}
	key, err := t.Key(nil, nil)
	if err != nil {
		panic(err)
	}
	return key
}

func parse(text string) *keyfunc.Template {
	t, err := keyfunc.ParseTemplate(text)
	if err != nil {
		panic(err)
	}
	return t
}
