package keyfunc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-lockguard/guard/keyfunc"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	jsonType   = "application/json"
)

func post(target, contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// multi is a multipart form with one file called file. The fields are given as
// name, value, name, value.
func multi(target string, fields ...string) *http.Request {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	file, _ := w.CreateFormFile("file", "file.txt")
	_, _ = io.WriteString(file, "content")
	_ = w.Close()
	return post(target, w.FormDataContentType(), b.String())
}

// derive checks that f gives want or err and leaves the body as it was.
func derive(t *testing.T, f keyfunc.Func, r *http.Request, want string, wantErr error) {
	t.Helper()
	before, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(before))
	for range 2 {
		if got, err := f(r); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%.100q: got %q, %v; want %q, %v", before, got, err, want, wantErr)
		}
	}
	if after, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%.100q: the body became %.100q, %v", before, after, err)
	}
	if r.Form != nil || r.PostForm != nil || r.MultipartForm != nil {
		t.Errorf("%.100q: the request's form was parsed", before)
	}
}

func TestFormReadsOneFieldOfTheBody(t *testing.T) {
	sku := keyfunc.Form("sku")
	derive(t, sku, post("/", urlencoded, "a=1&sku=x%3Ay"), "x:y", nil)
	derive(t, sku, post("/", urlencoded+"; charset=utf-8", "sku=1"), "1", nil)
	derive(t, sku, post("/", urlencoded, "SKU=1"), "", keyfunc.ErrMissing)
	derive(t, sku, post("/", urlencoded, "sku="), "", keyfunc.ErrMissing)
	derive(t, sku, post("/", urlencoded, ""), "", keyfunc.ErrMissing)
	derive(t, sku, post("/?sku=1", urlencoded, ""), "", keyfunc.ErrMissing)
	derive(t, sku, post("/", "", "sku=1"), "", keyfunc.ErrMissing)
	derive(t, sku, post("/", "text/plain", "sku=1"), "", keyfunc.ErrMediaType)
	derive(t, sku, post("/", jsonType, strings.Repeat("x", 65<<10)), "", keyfunc.ErrMediaType)
	derive(t, sku, post("/", "multipart/", "sku=1"), "", keyfunc.ErrMediaType)
	derive(t, sku, post("/", urlencoded, "sku=1&sku=1"), "", keyfunc.ErrAmbiguous)
	derive(t, sku, post("/?sku=1", urlencoded, "sku=1"), "", keyfunc.ErrAmbiguous)
	derive(t, sku, post("/", urlencoded, "sku=1&x=%zz"), "", keyfunc.ErrInvalid)
	derive(t, sku, post("/", urlencoded, "sku=1;sku=2"), "", keyfunc.ErrInvalid)
	derive(t, sku, post("/?x=%zz", urlencoded, "sku=1"), "", keyfunc.ErrInvalid)
	derive(t, sku, post("/", urlencoded, "sku=1&x="+strings.Repeat("x", 64<<10)), "", keyfunc.ErrTooLarge)
	derive(t, sku, multi("/", "a", "1", "sku", "x:y"), "x:y", nil)
	derive(t, sku, multi("/", "sku", ""), "", keyfunc.ErrMissing)
	derive(t, sku, multi("/", "sku", "1", "sku", "2"), "", keyfunc.ErrAmbiguous)
	derive(t, sku, multi("/?sku=1", "sku", "1"), "", keyfunc.ErrAmbiguous)
	derive(t, keyfunc.Form("file"), multi("/"), "", keyfunc.ErrMissing)
	derive(t, sku, post("/", "multipart/form-data; boundary=x",
		"--x\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\n7"), "", keyfunc.ErrInvalid)
	derive(t, sku, post("/", "multipart/form-data", "--x\r\n"), "", keyfunc.ErrInvalid)

	del := post("/", urlencoded, "sku=1")
	del.Method = http.MethodDelete // r.PostForm has nothing then
	derive(t, sku, del, "", keyfunc.ErrMissing)
}

func TestFormTakesAFormThatHasBeenParsed(t *testing.T) {
	for name, r := range map[string]*http.Request{
		"urlencoded": post("/", urlencoded, "sku=7"), "multipart": multi("/", "sku", "7"),
	} {
		if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
			t.Fatal(err)
		}
		if got, err := keyfunc.Form("sku")(r); got != "7" || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	half := multi("/", "sku", "7") // ParseForm does not read a multipart body
	if err := half.ParseForm(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := keyfunc.Form("sku")(half); got != "7" || err != nil {
			t.Errorf("half parsed: got %q, %v", got, err)
		}
	}
}

func TestBodyIsTheHashOfItsBytes(t *testing.T) {
	body := keyfunc.Body()
	const hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // by sha256sum
	derive(t, body, post("/", "text/plain", "hello"), hello, nil)
	derive(t, body, post("/", jsonType, "hello"), hello, nil)
	derive(t, body, post("/", "", ""), "", keyfunc.ErrMissing)
	derive(t, body, httptest.NewRequest(http.MethodGet, "/", nil), "", keyfunc.ErrMissing)
	derive(t, body, post("/", "", strings.Repeat("x", 64<<10+1)), "", keyfunc.ErrTooLarge)
	if v, err := body(post("/", "", strings.Repeat("x", 64<<10))); len(v) != 64 || err != nil {
		t.Errorf("a body of 64 KiB: got %q, %v", v, err)
	}
	broken := post("/", "", "")
	broken.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	if v, err := body(broken); v != "" || !errors.Is(err, keyfunc.ErrInvalid) {
		t.Errorf("a body that breaks off: got %q, %v", v, err)
	}
}

func TestJSONReadsOneMember(t *testing.T) {
	sku := keyfunc.JSON("sku")
	for body, want := range map[string]string{
		`{"sku":"x:y"}`:                        "x:y",
		` { "a" : [{"sku":1}], "sku" : "7" } `: "7",
		`{"sku":7}`:                            "7",
		`{"sku":-7}`:                           "-7",
		`{"sku":0}`:                            "0",
		`{"sku":9007199254740992}`:             "9007199254740992",
		`{"sku":-9007199254740992}`:            "-9007199254740992",
		`{"s\u006bu":"\u0061b"}`:               "ab",
		`{"sku":"a\u0000b"}`:                   "a\x00b",
		`{"sku":"a","sku2":"b","skuß":"c"}`:    "a",
	} {
		derive(t, sku, post("/", jsonType, body), want, nil)
	}
	for _, media := range []string{
		"", jsonType, "application/json; charset=utf-8",
		"application/vnd.api+json", "Application/JSON",
	} {
		derive(t, sku, post("/", media, `{"sku":"7"}`), "7", nil)
	}
}

func TestJSONRefusesWhatAHandlerMightReadOtherwise(t *testing.T) {
	sku := keyfunc.JSON("sku")
	for body, want := range map[string]error{
		``:                               keyfunc.ErrMissing,
		`{}`:                             keyfunc.ErrMissing,
		`{"SKU":"7"}`:                    keyfunc.ErrMissing,
		`{"sku":""}`:                     keyfunc.ErrMissing,
		`{"sku":null}`:                   keyfunc.ErrMissing,
		`{"a":{"sku":"7"}}`:              keyfunc.ErrMissing,
		`{"sku":"7","sku":"7"}`:          keyfunc.ErrAmbiguous,
		`{"sku":"7","SKU":"8"}`:          keyfunc.ErrAmbiguous,
		`{"Sku":"7","sku":"8"}`:          keyfunc.ErrAmbiguous,
		`{"sku":"7","s\u006bu":"8"}`:     keyfunc.ErrAmbiguous,
		"{\"sku\":\"7\",\"s\u212au\":8}": keyfunc.ErrAmbiguous, // the Kelvin sign
		"{\"sku\":\"7\",\"\u017fku\":8}": keyfunc.ErrAmbiguous, // the long s
		`{"sku":"7","x":1,"X":2}`:        keyfunc.ErrAmbiguous,
		`{"sku":7.5}`:                    keyfunc.ErrInvalid,
		`{"sku":1e-1}`:                   keyfunc.ErrInvalid,
		`{"sku":1e999999999}`:            keyfunc.ErrInvalid,
		`{"sku":1e99999999999999999999}`: keyfunc.ErrInvalid,
		`{"sku":-0.0}`:                   keyfunc.ErrInvalid,
		`{"sku":1e16}`:                   keyfunc.ErrInvalid,
		`{"sku":9007199254740993}`:       keyfunc.ErrInvalid,
		`{"sku":-9007199254740993}`:      keyfunc.ErrInvalid,
		`{"sku":18446744073709551616}`:   keyfunc.ErrInvalid,
		`{"sku":-0}`:                     keyfunc.ErrInvalid,
		`{"sku":true}`:                   keyfunc.ErrInvalid,
		`{"sku":["7"]}`:                  keyfunc.ErrInvalid,
		`{"sku":{"a":"7"}}`:              keyfunc.ErrInvalid,
		`[{"sku":"7"}]`:                  keyfunc.ErrInvalid,
		`"sku"`:                          keyfunc.ErrInvalid,
		`null`:                           keyfunc.ErrInvalid,
		` `:                              keyfunc.ErrInvalid,
		`{"sku":"7"`:                     keyfunc.ErrInvalid,
		`{"sku":"7",}`:                   keyfunc.ErrInvalid,
		`{"sku":"7"}{"sku":"8"}`:         keyfunc.ErrInvalid,
		`{"sku":"7"} x`:                  keyfunc.ErrInvalid,
		`{sku:"7"}`:                      keyfunc.ErrInvalid,
		`{"sku":007}`:                    keyfunc.ErrInvalid,
		"\ufeff" + `{"sku":"7"}`:         keyfunc.ErrInvalid,
		strings.Repeat("[", 60<<10):      keyfunc.ErrInvalid,
		`{"sku":"7","x":"` + strings.Repeat("x", 64<<10) + `"}`: keyfunc.ErrTooLarge,
	} {
		derive(t, sku, post("/", jsonType, body), "", want)
	}
	for _, media := range []string{urlencoded, "text/plain", "application/xml", "application/jsonx", "/"} {
		derive(t, sku, post("/", media, `{"sku":"7"}`), "", keyfunc.ErrMediaType)
	}
}

func TestABodyOverTheApplicationsLimitIsTooLarge(t *testing.T) {
	for name, f := range map[string]keyfunc.Func{"json": keyfunc.JSON("sku"), "form": keyfunc.Form("sku")} {
		r := post("/", "", `{"sku":"7"}`)
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 5)
		_, err := f(r)
		var limit *http.MaxBytesError
		if !errors.Is(err, keyfunc.ErrTooLarge) || !errors.As(err, &limit) {
			t.Errorf("%s: got %v", name, err)
		}
		if got, err := io.ReadAll(r.Body); string(got) != `{"sku` || !errors.As(err, &limit) {
			t.Errorf("%s: the handler reads %q, %v", name, got, err)
		}
	}
}

func TestABodyThatBreaksOffIsMalformed(t *testing.T) {
	r := post("/", "", "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"sku":"7"}`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	_, err := keyfunc.JSON("sku")(r)
	if !errors.Is(err, keyfunc.ErrInvalid) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if got, err := io.ReadAll(r.Body); string(got) != `{"sku":"7"}` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the handler reads %q, %v", got, err)
	}
}

func TestManyValuesAndLongOnesGiveTheRightKeyOrNone(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	many := strings.Repeat("a=1&", 9_998) + "sku=7"
	derive(t, keyfunc.Query("sku"), request("sku="+long), long, nil)
	derive(t, keyfunc.Query("sku").MaxLen(64), request("sku="+long), "", keyfunc.ErrInvalid)
	derive(t, keyfunc.Query("sku"), request(many), "7", nil)
	derive(t, keyfunc.Query("sku"), request(many+"&sku=7"), "", keyfunc.ErrAmbiguous)
	derive(t, keyfunc.Form("sku"), post("/", urlencoded, many), "7", nil)
	derive(t, keyfunc.Form("sku"), post("/", urlencoded, "sku="+long), "", keyfunc.ErrTooLarge)
	derive(t, keyfunc.JSON("sku"), post("/", jsonType, `{"sku":"`+long+`"}`), "", keyfunc.ErrTooLarge)
}

func TestAnIntegerHasOneValueHoweverItIsSpelled(t *testing.T) {
	for want, spellings := range map[string][]string{
		"100":              {"100", "100.0", "1e2", "1E+2", "0.1e3", "1000e-1", "10000.00e-2"},
		"-70":              {"-70", "-7e1", "-70.000"},
		"0":                {"0", "0.0", "0e5", "0e99999999999999999999"},
		"9007199254740992": {"9007199254740992", "9007199254740992.0", "9.007199254740992e15"},
	} {
		for _, text := range spellings {
			derive(t, keyfunc.JSON("sku"), post("/", jsonType, `{"sku":`+text+`}`), want, nil)
			derive(t, keyfunc.JSON("sku").Int(), post("/", jsonType, `{"sku":`+text+`}`), want, nil)
		}
	}
	derive(t, keyfunc.JSON("sku").Int(), post("/", jsonType, `{"sku":1.5418156036060364810e18}`),
		"1541815603606036481", nil)
}

func FuzzJSON(f *testing.F) {
	for _, body := range []string{
		`{"sku":"7"}`, `{"sku":7,"a":[1,{}]}`, `{"SKU":1}`, `{"sku":1,"SKU":2}`, `{"sku":null}`, `{"sku":1e3}`, `{`,
		`[]`, ``, `{"\u0073ku":"\ud800"}`,
		"{\"s\u212au\":\"a\"}", `{"sku":"a"}x`, "\xff", `{"a":{"sku":1}}`,
		" 0 ", "10A", "1e\x8e", "-", `[[]]`, "[[0 ", "\v", // a body that is no object
		`{"":{0`, "{\"\xb8K0\":0}", `"\u0000\`, // ends in a name, in an escape
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		v, err := keyfunc.JSON("sku")(r)
		if after, readErr := io.ReadAll(r.Body); readErr != nil || !bytes.Equal(after, body) {
			t.Fatalf("the body became %q, %v", after, readErr)
		}
		if err != nil {
			var e *keyfunc.Error
			if v != "" || !errors.As(err, &e) {
				t.Fatalf("got %q, %v", v, err)
			}
			return
		}
		var exact map[string]any // what handlers would read
		var anyCase struct {
			SKU any `json:"sku"`
		}
		for _, into := range []any{&exact, &anyCase} {
			d := json.NewDecoder(bytes.NewReader(body))
			d.UseNumber()
			if err := d.Decode(into); err != nil {
				t.Fatalf("a handler cannot read it: %v", err)
			}
		}
		for _, got := range []any{exact["sku"], anyCase.SKU} {
			if n, number := got.(json.Number); number {
				exact, _ := new(big.Rat).SetString(n.String())
				got = exact.RatString()
			}
			if got != v {
				t.Fatalf("the key has %q, a handler reads %q", v, got)
			}
		}
	})
}

func FuzzForm(f *testing.F) {
	f.Add("", urlencoded, []byte("sku=7"))
	f.Add("sku=1", urlencoded, []byte("sku=7&a=%zz"))
	f.Add("a=1", "multipart/form-data; boundary=x",
		[]byte("--x\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\n7\r\n--x--\r\n"))
	f.Add("", "multipart/form-data; boundary=x",
		[]byte("--x\r\nContent-Disposition: form-data; name=\"sku\"; filename=\"a\"\r\n\r\n7\r\n--x--\r\n"))
	f.Add(";", urlencoded, []byte("sku=7"))                                 // a separator that net/url refuses
	f.Add("%0X0", urlencoded, []byte("0"))                                  // a bad escape in the query
	f.Add("0", "AppliCAtion/X-www-form-urlenCoded", []byte("sku=0"))        // a media type has no case
	f.Add("0", "multipArt/form-dAtA;BoundArY=x", []byte("--x\n\n0\n--x--")) // neither do its parameters
	f.Add("0", `0;"`, []byte("0"))                                          // a parameter that does not end
	f.Add("", "a\x9d\x91\xe4\xfbA", []byte("0"))                            // no UTF-8
	f.Fuzz(func(t *testing.T, query, contentType string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", contentType)
		v, err := keyfunc.Form("sku")(r)
		after, readErr := io.ReadAll(r.Body)
		if readErr != nil || !bytes.Equal(after, body) {
			t.Fatalf("the body became %q, %v", after, readErr)
		}
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if got, post := r.FormValue("sku"), r.PostFormValue("sku"); got != v || post != v {
			t.Fatalf("the key has %q, a handler reads %q or %q", v, got, post)
		}
	})
}

// With float64 a handler takes one integer beyond 2^53 for another. A template
// may say that the handler does not.
func TestJSONTakesLargeIntegersForHandlersThatReadThem(t *testing.T) {
	const large = `{"id":1541815603606036481,"items":[{"id":-9007199254740993}]}`
	for template, want := range map[string]string{
		"{json.id|int}": "1541815603606036481", "{json.id|nonzero|int}": "1541815603606036481",
		"{json.id}": "", "{json.id|nonzero}": "",
	} {
		for name, f := range map[string]keyfunc.Func{"alone": keyfunc.MustParse(template), "list": listed(template)} {
			got, err := f(post("/", jsonType, large))
			if told := strings.Contains(fmt.Sprint(err), "15418"); told || got != want ||
				(want == "") != errors.Is(err, keyfunc.ErrInvalid) {
				t.Errorf("%s, %s: got %q, %v", template, name, got, err)
			}
		}
	}
	if got, err := keyfunc.JSON("id").Int()(post("/", jsonType, large)); got != "1541815603606036481" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := keyfunc.JSON("id").Int()(post("/", jsonType, `{"id":18446744073709551616}`)); err == nil {
		t.Errorf("more than 64 bits make %q", got)
	}
	if got, err := keyfunc.JSON("id").MaxLen(5).Int()(post("/", jsonType, large)); err == nil {
		t.Errorf("more than 5 bytes make %q", got)
	}
	keys := keyfunc.MustParseKeys("{json.items[].id|int}")
	if got, err := keys(post("/", jsonType, large)); fmt.Sprint(got) != "[-9007199254740993]" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	keys = keyfunc.MustParseKeys("{json.items[].id}")
	if got, err := keys(post("/", jsonType, large)); !errors.Is(err, keyfunc.ErrInvalid) {
		t.Errorf("got %q, %v", got, err)
	}
}

func listed(template string) keyfunc.Func {
	keys := keyfunc.MustParseKeys(template)
	return func(r *http.Request) (string, error) {
		got, err := keys(r)
		return strings.Join(got, ","), err
	}
}
