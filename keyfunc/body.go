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
	"strconv"
	"strings"
	"unicode"

	"github.com/go-lockguard/guard/internal/readahead"
)

// Form returns the Func of a field of a form body. It reads urlencoded and
// multipart forms of POST, PUT and PATCH, as r.PostFormValue does. A form that
// has been parsed already is used as it is.
//
// If the query has the name as well, the error is [ErrAmbiguous], because
// r.FormValue may prefer either. Another Content-Type is [ErrMediaType]. A body
// of more than 64 KiB is [ErrTooLarge], unless an option of the middleware
// allows more. Form leaves the body to be read again.
//
// For large uploads, bind in the handler and lock there with guard.Do.
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

// parseForm returns a parsed copy of r. It must not parse r itself, because
// parsing writes to it.
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
	// Files must stay in memory, because nobody would remove them from disk.
	multi := form.ParseMultipartForm(int64(len(text))) //nolint:gosec // the text was read within its limit
	if err == nil && !errors.Is(multi, http.ErrNotMultipart) {
		err = multi
	}
	if err != nil {
		return nil, ErrInvalid // err quotes the form
	}
	return form, nil
}

// isForm reports whether r can have a form. That includes a request without a
// Content-Type. It also includes a request whose method has no body that
// PostForm reads.
func isForm(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" || r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == "application/x-www-form-urlencoded" || media == "multipart/form-data")
}

// JSON returns the Func of a member of a body that is one JSON object. The
// member must be a string that is not empty, or an integer. A null is
// [ErrMissing]. Other kinds of values are [ErrInvalid]. An integer has one
// value, however it is spelled: 100, 100.0 and 1e2 are all "100". Fractions are
// [ErrInvalid]. So are integers beyond 2^53 and -2^53, because a handler that
// reads numbers as float64 rounds them. If the handler reads an integer of 64
// bits, use JSON(name).Int(), or {json.id|int} in a template.
//
// JSON does not look into nested objects. It leaves the body to be read again.
// A body of more than 64 KiB is [ErrTooLarge], unless an option of the
// middleware allows more.
//
// If two members have the same name, decoders differ in which they take. The
// same is true of names that differ only in case. So any two such members of
// the object are [ErrAmbiguous]. A single member that differs from name only in
// case counts as missing.
//
// A Content-Type that is not JSON is [ErrMediaType], because a handler that
// goes by it would read something else. Without a Content-Type, make sure that
// the handler does read JSON.
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

// isJSON reports whether the header of r allows for a body of JSON.
func isJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// Body returns the Func of the SHA-256 of the body's bytes, in lower-case hex.
// Two requests have the same value only if they send the same bytes, even if
// other bytes mean the same.
//
// An empty body is [ErrMissing]. A body of more than 64 KiB is [ErrTooLarge],
// unless an option of the middleware allows more. Body blocks until the whole
// body has arrived, and leaves it to be read again.
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

// wholeBody returns the body and leaves it to be read again.
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
	value, err := field(text, name)
	if err != nil {
		return "", err
	}
	return scalar(value)
}

// field returns the member name of the object in text. It is empty if the
// object has no such member.
func field(text []byte, name string) (json.RawMessage, error) {
	if len(text) == 0 {
		return nil, ErrMissing
	}
	if !json.Valid(text) { // false too if something follows the object
		return nil, ErrInvalid
	}
	object := json.NewDecoder(bytes.NewReader(text))
	if start, err := object.Token(); err != nil || start != json.Delim('{') {
		return nil, ErrInvalid
	}
	var value json.RawMessage
	seen := make(map[string]bool) // names as fold returns them
	for object.More() {
		key, err := object.Token()
		if err != nil {
			return nil, ErrInvalid
		}
		var v json.RawMessage
		if err := object.Decode(&v); err != nil {
			return nil, ErrInvalid
		}
		text, _ := key.(string) // always a string before a ':'
		folded := fold(text)
		if seen[folded] {
			return nil, ErrAmbiguous
		}
		seen[folded] = true
		if text == name {
			value = v
		}
	}
	return value, nil
}

// fold returns the same string for all names that are equal under
// [strings.EqualFold]. That is how encoding/json finds fields.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// maxFloat is the largest integer up to which a float64 holds all integers.
const maxFloat = 1 << 53

// scalar returns the part of a key that a JSON value makes. The value is valid
// or absent.
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
	}
	number, ok := integer(string(value))
	if !ok {
		return "", ErrInvalid
	}
	if n, err := strconv.ParseInt(number, 10, 64); err != nil || n > maxFloat || n < -maxFloat {
		return "", inexact(number)
	}
	return number, nil
}

// integer returns the integer that a JSON number spells, in digits alone. It
// returns false for a fraction, for -0, and for more digits than 64 bits need.
func integer(number string) (digits string, ok bool) {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent, zeros := number, "", 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(all, "0")
	if digits == "" {
		return "0", !negative
	}
	if exponent != "" {
		var err error
		if zeros, err = strconv.Atoi(exponent); err != nil {
			return "", false
		}
	}
	zeros += len(all) - len(digits) - len(fraction)
	if zeros < 0 || len(digits)+zeros > len("18446744073709551615") {
		return "", false
	}
	if negative {
		digits = "-" + digits
	}
	return digits + strings.Repeat("0", zeros), true
}
