package fencetest

import (
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// This file has the handlers of docs/recipes/etag.md, on PostgreSQL.

// articles are edited by those who have read their newest version.
type articles struct{ db *sql.DB }

// get answers the article with its version as the ETag.
func (a articles) get(w http.ResponseWriter, r *http.Request, id string) {
	var body string
	var version int
	err := a.db.QueryRowContext(r.Context(), `SELECT body, version FROM articles WHERE id = $1`, id).Scan(&body, &version)
	if errors.Is(err, sql.ErrNoRows) {
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, "sorry", http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(version)))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, body)
}

// put changes the article if it still has the version of If-Match.
func (a articles) put(w http.ResponseWriter, r *http.Request, id string) {
	version, err := strconv.Atoi(strings.Trim(r.Header.Get("If-Match"), `"`))
	if err != nil {
		http.Error(w, "send the ETag that you have read as If-Match", http.StatusPreconditionRequired)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body is too long, or broken", http.StatusBadRequest)
		return
	}
	res, err := a.db.ExecContext(r.Context(),
		`UPDATE articles SET body = $1, version = version + 1 WHERE id = $2 AND version = $3`, string(body), id, version)
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
	}
	switch {
	case err != nil:
		http.Error(w, "sorry", http.StatusInternalServerError)
	case n == 0:
		http.Error(w, "it has changed since you have read it: read it again", http.StatusPreconditionFailed)
	default:
		w.Header().Set("ETag", strconv.Quote(strconv.Itoa(version+1)))
		w.WriteHeader(http.StatusNoContent)
	}
}

// edits returns a function that sends requests to the articles. It takes the
// method, the id, the body and If-Match.
func edits(t *testing.T) func(method, id, body, match string) *httptest.ResponseRecorder {
	t.Helper()
	a := articles{onPostgreSQL(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /articles/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.get(w, r, r.PathValue("id"))
	})
	mux.HandleFunc("PUT /articles/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.put(w, r, r.PathValue("id"))
	})
	return func(method, id, body, match string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/articles/"+id, strings.NewReader(body))
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
}

func TestAnEditOfAnOldVersionIsRefused(t *testing.T) {
	send := edits(t)
	read := send(http.MethodGet, "a1", "", "").Header().Get("ETag")
	if read != `"1"` {
		t.Fatalf("the ETag is %s", read)
	}
	for _, c := range []struct {
		body, match string
		status      int
		etag        string
	}{
		{"from Ann", read, http.StatusNoContent, `"2"`},
		{"from Ben", read, http.StatusPreconditionFailed, ""},
		{"from Ben", "", http.StatusPreconditionRequired, ""},
		{"from Ben", `"2"`, http.StatusNoContent, `"3"`},
	} {
		if w := send(http.MethodPut, "a1", c.body, c.match); w.Code != c.status || w.Header().Get("ETag") != c.etag {
			t.Errorf("%v: got %d %v", c, w.Code, w.Header())
		}
	}
	if w := send(http.MethodGet, "a1", "", ""); w.Body.String() != "from Ben" || w.Header().Get("ETag") != `"3"` {
		t.Errorf("in the end: %s %v", w.Body, w.Header())
	}
	if w := send(http.MethodGet, "nobody's", "", ""); w.Code != http.StatusNotFound {
		t.Errorf("one that is not there: %d", w.Code)
	}
	if w := send(http.MethodPut, "nobody's", "", `"1"`); w.Code != http.StatusPreconditionFailed {
		t.Errorf("an edit of one that is not there: %d", w.Code)
	}
}

func TestOneOfManyEditsOfAVersionCounts(t *testing.T) {
	send := edits(t)
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() { codes[i] = send(http.MethodPut, "a1", "mine", `"1"`).Code })
	}
	wg.Wait()
	count := map[int]int{}
	for _, code := range codes {
		count[code]++
	}
	if count[http.StatusNoContent] != 1 || count[http.StatusPreconditionFailed] != len(codes)-1 {
		t.Errorf("answered %v", count)
	}
}

func TestAnEditLockIsARowThatIsRenewed(t *testing.T) {
	db := onPostgreSQL(t)
	for _, c := range []struct {
		user       string
		until, now int
		has        int64 // rows
	}{
		{"ann", 310, 10, 1},  // nobody has had it
		{"ben", 320, 20, 0},  // ann has
		{"ann", 360, 60, 1},  // her page renews it
		{"ben", 610, 310, 0}, // so it has not run out
		{"ben", 661, 361, 1}, // ann has closed her page
		{"ann", 670, 370, 0},
	} {
		res, err := db.ExecContext(t.Context(),
			`UPDATE articles SET owner = $1, until = $2 WHERE id = $3 AND (owner = $1 OR until < $4)`,
			c.user, c.until, "a1", c.now)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != c.has {
			t.Errorf("%v: %d rows, %v", c, n, err)
		}
	}
}
