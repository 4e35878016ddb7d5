package recipes_test

import (
	"fmt"
	"net/http"
	"testing"
)

// The routes of etag.md. Its handlers are in lab/fencetest, where the
// databases are. These here only say what they were asked.

type articles struct{}

func (articles) get(w http.ResponseWriter, _ *http.Request, id string) { fmt.Fprint(w, "get ", id) }
func (articles) put(w http.ResponseWriter, _ *http.Request, id string) { fmt.Fprint(w, "put ", id) }

func TestTheRoutesOfArticlesLeadToTheirHandlers(t *testing.T) {
	for name, mount := range map[string]func(articles) http.Handler{
		"gin": ginArticles, "echo": echoArticles, "net/http": netArticles,
	} {
		for method, want := range map[string]string{http.MethodGet: "get a7", http.MethodPut: "put a7"} {
			w := send(mount(articles{}), method, "/articles/a7", "", "")
			if w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("%s: got %d %s, want %s", name, w.Code, w.Body, want)
			}
		}
	}
}
