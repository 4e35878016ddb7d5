package httpguard

import (
	"fmt"

	"github.com/go-lockguard/guard/keyfunc"
)

// Template parses text for an adapter's Key. It panics if text is no template
// or has no placeholder. A missing placeholder is nearly always a misspelled
// one, and would silently lock all requests by one key.
func Template(text string) *keyfunc.Template {
	t := parse(text)
	refuseConstant(t, text)
	return t
}

// Templates parses texts for an adapter's Keys. It panics if one is no template
// or has no placeholder, as Template does.
func Templates(texts []string) keyfunc.Templates {
	ts, err := keyfunc.ParseTemplates(texts...)
	if err != nil {
		panic(err)
	}
	for i, t := range ts {
		refuseConstant(t, texts[i])
	}
	return ts
}

// refuseConstant panics if t, which text describes, has no placeholder.
func refuseConstant(t *keyfunc.Template, text string) {
	if t.Constant() {
		panic(fmt.Sprintf("lockmw: template %q has no placeholder like {sku}, so all requests would wait for one key. "+
			"If you mean that, use lockmw.Static", text))
	}
}

// Constant returns the constant key that text describes, for an adapter's
// Static. It panics if text is no template or has a placeholder.
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
