package keyfunc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-lockguard/guard/internal/readahead"
)

// Form returns the Func of a field of a form body, urlencoded or multipart, as
// r.PostFormValue reads it: of POST, PUT and PATCH. If the query has the name
// as well it is [ErrAmbiguous], because r.FormValue may prefer either. The body
// is left to be read again; one of another Content-Type is [ErrMediaType], one
// of more than 64 KiB [ErrTooLarge], unless the middleware has an option for
// more. A form that has been parsed already is used as it is.
//
// For large uploads, bind in the handler and lock there, with guard.Do.
func Form(name string) Func {
	return func(r *http.Request) (string, error) {
		form, err := parseForm(r)
		switch {
		case err != nil:
			return "", &Error{"form", name, err}
		case len(form.PostForm[name]) == 0:
			return "", &Error{"form", name, ErrMissing}
		}
		return one("form", name, form.Form[name])
	}
}

// parseForm returns a copy of r whose form is parsed; parsing writes to it.
func parseForm(r *http.Request) (*http.Request, error) {
	if r.PostForm == nil && !isForm(r) {
		return nil, ErrMediaType
	}
	text, err := wholeBody(r)
	if err != nil {
		return nil, err
	}
	form := r.Clone(r.Context())
	form.Body = io.NopCloser(bytes.NewReader(text))
	err = form.ParseForm()
	// Files must stay in memory: nobody would remove them.
	if multi := form.ParseMultipartForm(int64(len(text))); err == nil && !errors.Is(multi, http.ErrNotMultipart) {
		err = multi
	}
	if err != nil {
		return nil, ErrInvalid // err quotes the form
	}
	return form, nil
}

// isForm reports whether r can have a form: it may say nothing of its body, or
// have none that PostForm looks at.
func isForm(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" || r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == "application/x-www-form-urlencoded" || media == "multipart/form-data")
}

// JSON returns the Func of a member of a body that is one JSON object: a string
// that is not empty, or an integer. Other kinds of values are [ErrInvalid], and
// so are fractions and exponents, which spell one number in many ways; null is
// [ErrMissing]. There is no way into nested objects. The body is left to be
// read again; one of more than 64 KiB is [ErrTooLarge], unless the middleware
// has an option for more.
//
// Decoders differ in which member they take if two have the same name, or names
// that differ in case only. So that is [ErrAmbiguous], for any two members of
// the object; one that differs from name only in case counts as missing. A
// Content-Type that is not JSON is [ErrMediaType], because a handler that goes
// by it would read something else; without one, make sure that the handler
// reads JSON all the same.
func JSON(name string) Func {
	return func(r *http.Request) (string, error) {
		if !isJSON(r) {
			return "", &Error{"json", name, ErrMediaType}
		}
		text, err := wholeBody(r)
		if err != nil {
			return "", &Error{"json", name, err}
		}
		v, err := member(text, name)
		if err != nil {
			return "", &Error{"json", name, err}
		}
		return v, nil
	}
}

// isJSON reports whether r's body is JSON as far as r says.
func isJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// Body returns the Func of the SHA-256 of the body's bytes, in lower-case hex:
// two requests have the same value only if they send the same bytes, whatever
// those mean. An empty body is [ErrMissing]. The body is left to be read again;
// one of more than 64 KiB is [ErrTooLarge], unless the middleware has an option
// for more. It blocks until the body has arrived.
func Body() Func {
	return func(r *http.Request) (string, error) {
		text, err := wholeBody(r)
		switch {
		case err != nil:
			return "", &Error{"body", "", err}
		case len(text) == 0:
			return "", &Error{"body", "", ErrMissing}
		}
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:]), nil
	}
}

// wholeBody returns the body, and leaves it to be read again.
func wholeBody(r *http.Request) ([]byte, error) {
	text, whole, err := readahead.Body(r)
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &limit):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case !whole:
		return nil, ErrTooLarge
	}
	return text, nil
}

// member returns the value of the member name of the object in text.
func member(text []byte, name string) (string, error) {
	if len(text) == 0 {
		return "", ErrMissing
	}
	if !json.Valid(text) { // also if something follows the object
		return "", ErrInvalid
	}
	object := json.NewDecoder(bytes.NewReader(text))
	if start, err := object.Token(); err != nil || start != json.Delim('{') {
		return "", ErrInvalid
	}
	var value json.RawMessage
	seen := make(map[string]bool) // folded names
	for object.More() {
		key, err := object.Token()
		if err != nil {
			return "", ErrInvalid
		}
		var v json.RawMessage
		if err := object.Decode(&v); err != nil {
			return "", ErrInvalid
		}
		text, _ := key.(string) // what else is before a ':'
		folded := fold(text)
		if seen[folded] {
			return "", ErrAmbiguous
		}
		seen[folded] = true
		if text == name {
			value = v
		}
	}
	return scalar(value)
}

// fold returns the same for names that are equal under [strings.EqualFold],
// which is how encoding/json finds fields.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// scalar returns what a JSON value, valid or absent, is as a part of a key.
func scalar(value json.RawMessage) (string, error) {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return "", ErrMissing
	case value[0] == '"':
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return "", ErrInvalid
		}
		if s == "" {
			return "", ErrMissing
		}
		return s, nil
	case value[0] != '-' && (value[0] < '0' || value[0] > '9'):
		return "", ErrInvalid // true, false, an object or an array
	case bytes.ContainsAny(value, ".eE") || string(value) == "-0":
		return "", ErrInvalid
	}
	return string(value), nil
}
