package readahead_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-lockguard/guard/internal/readahead"
)

// counted is a body that counts the bytes read from it.
type counted struct {
	io.Reader
	read   int
	closed bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counted) Close() error {
	c.closed = true
	return nil
}

func TestABodyIsReadAheadAndStaysWhatItWas(t *testing.T) {
	broken := errors.New("broken")
	text := func(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
	for _, c := range []struct {
		name  string
		body  string
		end   error // instead of io.EOF
		whole bool
	}{
		{"empty", "", nil, true},
		{"small", "hello", nil, true},
		{"at the limit", text(readahead.Limit), nil, true},
		{"beyond the limit", text(readahead.Limit + 1), nil, false},
		{"far beyond the limit", text(5 * readahead.Limit), nil, false},
		{"broken at once", "", broken, false},
		{"broken", "hello", broken, false},
		{"broken at the limit", text(readahead.Limit), broken, false},
		{"broken beyond what is read ahead", text(2 * readahead.Limit), broken, false},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"": func(r io.Reader) io.Reader { return r }, ", end with the last bytes": iotest.DataErrReader,
			", in halves": iotest.HalfReader,
		} {
			for size, length := range map[string]int64{
				"": int64(len(c.body)), ", of unknown size": -1,
				", of false size": 3,
			} {
				t.Run(c.name+how+size, func(t *testing.T) {
					end, wantErr := io.EOF, c.end
					if c.end != nil {
						end = c.end
					}
					if len(c.body) > readahead.Limit {
						wantErr = nil // not met yet
					}
					r := httptest.NewRequest(http.MethodPost, "/", nil)
					r.ContentLength = length
					source := &counted{Reader: wrap(io.MultiReader(strings.NewReader(c.body), iotest.ErrReader(end)))}
					r.Body = source
					for range 2 {
						ahead, whole, err := readahead.Body(r)
						if whole != c.whole || !errors.Is(err, wantErr) || !strings.HasPrefix(c.body, string(ahead)) ||
							whole && len(ahead) != len(c.body) {
							t.Fatalf("got %d bytes, whole %v, %v; want %d bytes, %v, %v", len(ahead), whole, err,
								len(c.body), c.whole, wantErr)
						}
					}
					if source.read > readahead.Limit+1 {
						t.Errorf("read %d bytes ahead", source.read)
					}
					got, err := io.ReadAll(r.Body)
					if string(got) != c.body || !errors.Is(err, c.end) {
						t.Errorf("restored %d bytes, %v; want %d, %v", len(got), err, len(c.body), c.end)
					}
					if _ = r.Body.Close(); !source.closed {
						t.Error("Close does not reach the body underneath")
					}
				})
			}
		}
	}
}

func TestABodyReadInPartIsReadAheadFromThere(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello world"))
	if _, _, err := readahead.Body(r); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, r.Body, 6); err != nil {
		t.Fatal(err)
	}
	ahead, whole, err := readahead.Body(r)
	if string(ahead) != "world" || !whole || err != nil {
		t.Errorf("got %q, %v, %v", ahead, whole, err)
	}
	if rest, _ := io.ReadAll(r.Body); string(rest) != "world" {
		t.Errorf("restored %q", rest)
	}
}

func TestNoBodyIsLeftAlone(t *testing.T) {
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body = b
		if text, whole, err := readahead.Body(r); len(text) > 0 || !whole || err != nil || r.Body != b {
			t.Errorf("got %q, %v, %v", text, whole, err)
		}
	}
}

func FuzzBodyIsRestored(f *testing.F) {
	f.Add([]byte("hello"), uint16(1), int64(5), byte(1))
	f.Add([]byte("x"), uint16(readahead.Limit-1), int64(-1), byte(0))
	f.Add([]byte("xyz"), uint16(30_000), int64(7), byte(3))
	f.Add([]byte("0"), uint16(0), int64(20), byte('%'))         // an empty body that claims 20 bytes
	f.Add([]byte("00000"), uint16(65535), int64(-49), byte(21)) // far above the limit, no size
	f.Add([]byte("0000000"), uint16(334), int64(20), byte(29))  // a size that is too small
	f.Fuzz(func(t *testing.T, part []byte, times uint16, size int64, how byte) {
		text := bytes.Repeat(part[:min(len(part), 8)], int(times))
		var source io.Reader = bytes.NewReader(text)
		if how&1 != 0 {
			source = iotest.DataErrReader(source)
		}
		if how&2 != 0 {
			source = iotest.HalfReader(source)
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body, r.ContentLength = io.NopCloser(source), size
		ahead, whole, err := readahead.Body(r)
		if err != nil || whole != (len(text) <= readahead.Limit) || !bytes.HasPrefix(text, ahead) {
			t.Fatalf("got %d of %d bytes, whole %v, %v", len(ahead), len(text), whole, err)
		}
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("restored %d of %d bytes, %v", len(got), len(text), err)
		}
	})
}

func TestALimitIsThatOfTheRequest(t *testing.T) {
	text := strings.Repeat("x", 100<<10)
	for limit, want := range map[int]bool{
		0: false, 1: false, 64 << 10: false, 100<<10 - 1: false,
		100 << 10: true, 1 << 20: true,
	} {
		from := &counted{Reader: strings.NewReader(text)}
		r := httptest.NewRequest(http.MethodPost, "/", from)
		readahead.SetLimit(r, limit)
		if from.read > 0 {
			t.Errorf("limit %d: read before it was asked for", limit)
		}
		got, whole, err := readahead.Body(r)
		if whole != want || err != nil || whole && string(got) != text || from.read > limit+1 {
			t.Errorf("limit %d: got %d bytes of %d read, whole %v, %v", limit, len(got), from.read, whole, err)
		}
		if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != text {
			t.Errorf("limit %d: %d bytes are left, %v", limit, len(rest), err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
	readahead.SetLimit(r, 1)
	_, _ = io.ReadFull(r.Body, make([]byte, 2)) // another reader before us
	readahead.SetLimit(r, 3)
	if got, whole, err := readahead.Body(r); string(got) != "llo" || !whole || err != nil {
		t.Errorf("got %q, %v, %v", got, whole, err)
	}
}
