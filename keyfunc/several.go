package keyfunc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ParseKeys returns the function that makes the keys of several templates,
// each key once. In these templates a [] behind a JSON member stands for each
// element of a list:
//
//	stock:{json.items[].sku}   a key for each object of the list items, with its member sku
//	stock:{json.skus[]}        a key for each string or integer of the list skus
//
// All lists in one template must be the same list. So
// "stock:{json.items[].sku}:{json.items[].size}" has one key for each element.
//
// An absent list, an empty one, and a list with an element without its value
// are [ErrMissing]. An element of another type is [ErrInvalid]. More than 64
// distinct keys are [ErrTooManyKeys].
//
// The function is for lockmw's KeysFunc and safe for concurrent use. ParseKeys
// returns the errors of [Parse]. It also refuses to parse no templates at all.
func ParseKeys(templates ...string) (func(*http.Request) ([]string, error), error) {
	ts, err := ParseTemplates(templates...)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) ([]string, error) { return ts.Keys(r, nil) }, nil
}

// MustParseKeys is [ParseKeys] for templates in the source code. It panics if
// ParseKeys returns an error.
func MustParseKeys(templates ...string) func(*http.Request) ([]string, error) {
	f, err := ParseKeys(templates...)
	if err != nil {
		panic(err)
	}
	return f
}

// Templates are the templates of a request's keys, for adapters. Make them with
// [ParseTemplates]. They are safe for concurrent use.
type Templates []*Template

// ParseTemplates reads templates, which may have lists. It returns the same
// errors as [ParseKeys].
func ParseTemplates(templates ...string) (Templates, error) {
	if len(templates) == 0 {
		return nil, errors.New("keyfunc: no templates")
	}
	ts := make(Templates, len(templates))
	for i, text := range templates {
		var err error
		if ts[i], err = parse(text, true); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

// PathOnly reports whether all placeholders are path parameters. Then
// [Templates.Keys] with Params looks at nothing else of a request.
func (ts Templates) PathOnly() bool {
	return !slices.ContainsFunc(ts, func(t *Template) bool { return !t.PathOnly() })
}

// Keys returns the distinct keys of r, as the function of [ParseKeys] does. If
// p is nil, the path parameters in r itself are used.
func (ts Templates) Keys(r *http.Request, p Params) (keys []string, err error) {
	for _, t := range ts {
		if keys, err = t.appendKeys(keys, r, p); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// appendKeys adds the keys of r to keys.
func (t *Template) appendKeys(keys []string, r *http.Request, p Params) ([]string, error) {
	if t.list == "" {
		key, err := t.Key(r, p)
		if err != nil {
			return nil, err
		}
		return add(keys, key)
	}
	// Values that all keys share are read once. A body can have thousands of
	// elements.
	values := make([]string, len(t.parts))
	for i := range t.parts {
		if t.parts[i].list == "" {
			v, err := t.parts[i].read(r, p)
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
	}
	elements, err := list(r, t.list)
	if err != nil {
		return nil, &Error{"json", t.list + "[]", err}
	}
	for elements.More() {
		key, err := t.elementKey(elements, values)
		if err != nil {
			return nil, err
		}
		if keys, err = add(keys, key); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// maxKeys is the max number of distinct keys of one request.
const maxKeys = 64

// add returns keys with key, unless keys has it already.
func add(keys []string, key string) ([]string, error) {
	switch {
	case slices.Contains(keys, key):
		return keys, nil
	case len(keys) == maxKeys:
		return nil, ErrTooManyKeys
	}
	return append(keys, key), nil
}

// Distinct returns each of keys once, for adapters. More than 64 distinct keys
// are [ErrTooManyKeys].
func Distinct(keys []string) (distinct []string, err error) {
	for _, key := range keys {
		if distinct, err = add(distinct, key); err != nil {
			return nil, err
		}
	}
	return distinct, nil
}

// elementKey returns the key of the next element. values are those of the parts
// without a list. Those of the others are overwritten.
func (t *Template) elementKey(elements *json.Decoder, values []string) (string, error) {
	var element json.RawMessage
	if err := elements.Decode(&element); err != nil {
		return "", &Error{"json", t.list + "[]", ErrInvalid}
	}
	var key []byte
	for i := range t.parts {
		if p := &t.parts[i]; p.list != "" {
			v, err := p.valueOf(element)
			if err != nil {
				return "", err
			}
			values[i] = v
		}
		if i > 0 {
			key = append(key, ':')
		}
		key = t.parts[i].append(key, values[i])
	}
	return string(key), nil
}

// valueOf returns the value of the part in an element of its list.
func (p *part) valueOf(element json.RawMessage) (v string, err error) {
	switch {
	case p.member == "" || element[0] == 'n': // null
		v, err = scalar(element)
	default:
		v, err = member(element, p.member)
	}
	if err != nil {
		err = &Error{p.source, p.name, err}
	}
	return p.normalize(v, err)
}

// list returns a decoder of the elements of the list name in the body of r.
// There is at least one.
func list(r *http.Request, name string) (*json.Decoder, error) {
	if !isJSON(r) {
		return nil, ErrMediaType
	}
	text, err := wholeBody(r)
	if err != nil {
		return nil, err
	}
	value, err := field(text, name)
	switch {
	case err != nil:
		return nil, err
	case len(value) == 0 || value[0] == 'n':
		return nil, ErrMissing
	case value[0] != '[':
		return nil, ErrInvalid
	}
	elements := json.NewDecoder(bytes.NewReader(value))
	if _, err := elements.Token(); err != nil {
		return nil, ErrInvalid
	}
	if !elements.More() {
		return nil, ErrMissing
	}
	return elements, nil
}

// element reads the name of a JSON member, which may have a list in it.
func (p *part) element(name string) (problem string) {
	list, rest, found := strings.Cut(name, "[]")
	if !found {
		return ""
	}
	member, dotted := strings.CutPrefix(rest, ".")
	switch {
	case list == "":
		return "the list before [] has no name"
	case strings.Contains(rest, "[]"):
		return "a list in a list"
	case rest != "" && (!dotted || member == ""):
		return "want a dot and a name after [], or nothing"
	}
	p.list, p.member = list, member
	return ""
}

// addList sets the list of t if p has one. lists is whether it may.
func (t *Template) addList(p *part, lists bool) (problem string) {
	switch {
	case p.list == "" || p.list == t.list:
		return ""
	case !lists:
		return "a list gives several keys: use Keys or ParseKeys"
	case t.list != "":
		return fmt.Sprintf("a second list, want elements of %q alone", t.list+"[]")
	}
	t.list = p.list
	return ""
}
