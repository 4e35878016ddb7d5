package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two instances take forty comments on one post, all at once.
func Example() {
	floors, err := contrast(40, true)
	fmt.Println(floors, err)
	// Output: [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40] <nil>
}

// The same crowd without the lock, so that the Example says something.
func TestWithoutTheLockFloorsAreBuiltTwice(t *testing.T) {
	for range 50 { // more than one crowd is hardly ever needed
		floors, err := contrast(40, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(slices.Compact(floors)) < 40 {
			return
		}
	}
	t.Error("every crowd came through one by one")
}

func TestTheContrastIsPrinted(t *testing.T) {
	var out strings.Builder
	if err := showContrast(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lock: false ", "lock: true   40 comments got 40 different floors"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the contrast says\n%swant %q", out.String(), want)
		}
	}
}

func TestACommentWithoutTextTakesNoFloor(t *testing.T) {
	store := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close()
	for _, form := range []url.Values{{}, {"text": {""}}, {"text": {" \n"}}} {
		r := httptest.NewRequest(http.MethodPost, "/posts/7/comments", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		app(comments{rdb}).ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || store.Exists("post:7") {
			t.Errorf("a comment with %v: status %d, stored %t; want 400 and nothing stored", form, w.Code,
				store.Exists("post:7"))
		}
	}
}
