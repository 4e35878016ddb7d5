package show

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page
var pageFiles embed.FS

// serveWeb serves the live page until ctx ends. People read on con, and with
// -json each run's result goes to stdout.
func serveWeb(ctx context.Context, cfg config, con *console, stdout io.Writer) error {
	addr, err := loopbackAddr(cfg.addr)
	if err != nil {
		return err
	}
	h, token := newHub(), rand.Text()
	st := newStage(ctx, cfg, h, func(res result) { report(cfg, res, h, con, stdout) })
	srv, failed, err := serve(ctx, addr, protect(token, newPage(h, st)))
	if err != nil {
		return fmt.Errorf("-web: %w", err)
	}
	con.raw("flash sale, live:  http://%s/?token=%s\n", srv.Addr, token)
	con.printf("Open it in a browser on this machine; whoever has the whole URL can start, stop and kill. " +
		"Ctrl-C ends it.\n")
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	st.close()
	h.end()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceLimit)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close() // a tab that does not read
	}
	return err
}

// newPage has the page, what it needs, and its buttons.
func newPage(h *hub, st *stage) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // embedded
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.Handle("GET /events", h)
	mux.HandleFunc("GET /record", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="flashsale.html"`)
		_ = recordTo(w, h.messages()) // the browser has gone
	})
	mux.HandleFunc("POST /api/{what}", func(w http.ResponseWriter, r *http.Request) {
		if err := st.press(r.Context(), r.PathValue("what"), http.MaxBytesReader(w, r.Body, 4<<10)); err != nil {
			refuse(w, http.StatusConflict, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// refuse answers that nothing was done, and why.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the browser has gone
}

// report tells of a run that came to its end: on the console, to programs, and
// in a file.
func report(cfg config, res result, h *hub, con *console, stdout io.Writer) {
	con.printf("%s  \tmode %s: %d items, %d orders, oversold %d, lost updates %d, late writes refused %d, "+
		"leases lost %d\n",
		time.Now().Format(time.TimeOnly), res.Mode, res.Stock, res.Orders, res.Oversold, res.LostUpdates,
		res.LateWrites, res.LeasesLost)
	if cfg.json {
		_ = json.NewEncoder(stdout).Encode(res) // nobody reads any longer
	}
	if cfg.record != "" {
		if err := recordFile(cfg.record, h.messages()); err != nil {
			con.printf("flashsale: -record: %v\n", err)
		}
	}
}

// pageHeaders keep the page to itself: nothing from elsewhere, in nobody's
// frame, its URL told to nobody.
var pageHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; " +
		"connect-src 'self'; " +
		"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
}

// loopbackAddr checks that an address for -web is on this machine only. "" is a
// free port.
func loopbackAddr(addr string) (string, error) {
	if addr == "" {
		return "127.0.0.1:0", nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("-web is %q, want host:port such as 127.0.0.1:8080", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if !isLoopback(host) {
		return "", fmt.Errorf("-web is %q, want an address of this machine only, such as 127.0.0.1:%s: the page can "+
			"stop and kill processes", addr, port)
	}
	return net.JoinHostPort(host, port), nil
}

// protect puts the checks in front of the page. Anybody on this machine may
// look; the URL that is printed has a token for those who may touch.
func protect(token string, next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection() // by Sec-Fetch-Site, or Origin against Host
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range pageHeaders {
			w.Header().Set(name, value)
		}
		switch {
		case !hostIsOurs(r):
			// A name that somebody else points here must not make us theirs
			// (DNS rebinding).
			refuse(w, http.StatusMisdirectedRequest, "this page is at the address that the program has printed only")
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.URL.Path != "/", // a link to the page is fine
			foreign.Check(r) != nil:
			refuse(w, http.StatusForbidden, "requests of other sites are refused")
		case r.Method != http.MethodGet && r.Method != http.MethodHead &&
			subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(token)) != 1:
			refuse(w, http.StatusForbidden, "the token is missing: open the URL that the program has printed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostIsOurs checks the name under which a browser has found this page.
func hostIsOurs(r *http.Request) bool {
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = strings.Trim(r.Host, "[]"), "80"
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && port == strconv.Itoa(at.Port) && isLoopback(name)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Limits of the pages that look on.
const (
	maxTabs   = 256              // streams at once
	heartbeat = 15 * time.Second // so that a tab that has gone is noticed
)

// hub keeps every message of the run on stage, for pages that come late: the
// first one resets a page, and the rest bring it up to date. Nothing waits for
// a page: each stream has a goroutine of its own that reads on at its own pace,
// and a page that does not read is dropped. Safe for concurrent use.
type hub struct {
	patience time.Duration // with a tab that does not read
	tabs     chan struct{} // has one for each stream

	mu    sync.Mutex // guards what follows; not held across I/O
	run   int        // counts begins
	log   []json.RawMessage
	more  chan struct{} // closed when there is more to read
	ended bool
}

func newHub() *hub {
	return &hub{patience: 5 * time.Second, tabs: make(chan struct{}, maxTabs), more: make(chan struct{})}
}

// begin forgets the last run.
func (h *hub) begin(first update) {
	h.mu.Lock()
	h.run++
	h.log = nil
	h.mu.Unlock()
	h.publish(first)
}

// publish adds a message.
func (h *hub) publish(m update) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message of ours that is no JSON
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, text)
	h.wake()
}

// end lets every stream end once it has sent what there is.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.wake()
}

// wake tells all streams to look. The caller holds the mutex.
func (h *hub) wake() {
	close(h.more)
	h.more = make(chan struct{})
}

// place is how far a page has read.
type place struct{ run, at int }

// read returns what a page at p has not seen, where it is then, and how it
// learns of more.
func (h *hub) read(p place) (unseen []json.RawMessage, next place, more <-chan struct{}, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.run != h.run {
		p = place{run: h.run}
	}
	return slices.Clone(h.log[p.at:]), place{h.run, len(h.log)}, h.more, h.ended
}

// messages returns all of the run on stage.
func (h *hub) messages() []json.RawMessage {
	all, _, _, _ := h.read(place{})
	return all
}

// ServeHTTP streams the run to one page, as server-sent events.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.tabs <- struct{}{}:
		defer func() { <-h.tabs }()
	default:
		http.Error(w, fmt.Sprintf("%d pages look on already: close some", maxTabs), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) error { // each message gets some time
		if err := out.SetWriteDeadline(time.Now().Add(h.patience)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, format, args...)
		return err
	}
	var err error
	for at := (place{}); err == nil; err = errors.Join(err, out.Flush()) {
		unseen, next, more, ended := h.read(at)
		at = next
		for _, m := range unseen {
			if err = send("data: %s\n\n", m); err != nil {
				return // it has gone, or does not read
			}
		}
		if out.Flush() != nil || ended {
			return
		}
		select {
		case <-more:
		case <-time.After(heartbeat):
			err = send(":\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// A record is the page in one file, with everything in it that it would have
// been told: its scripts play that instead of listening.

// frozenPolicy allows what is in the file, and nothing from elsewhere.
const frozenPolicy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">`

var (
	styleTag  = regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)">`)
	scriptTag = regexp.MustCompile(`<script src="([^"]+)" defer></script>`)
)

// recordTo writes the page with these messages frozen in it.
func recordTo(w io.Writer, messages []json.RawMessage) error {
	html, err := pageFiles.ReadFile("page/index.html")
	if err != nil {
		return err
	}
	var scripts bytes.Buffer
	html = inline(html, styleTag, func(text []byte) []byte { return wrap("<style>", text, "</style>") })
	html = inline(html, scriptTag, func(text []byte) []byte {
		scripts.Write(wrap("<script>", text, "</script>\n")) // they run once the page is there, as with defer
		return nil
	})
	frozen, err := json.Marshal(messages) // escapes <, so that no text ends the element
	if err != nil {
		return err
	}
	html = bytes.Replace(html, []byte("<head>"), []byte("<head>\n"+frozenPolicy), 1)
	end := wrap(`<script type="application/json" id="frozen">`, frozen, "</script>\n"+scripts.String()+"</body>")
	html = bytes.Replace(html, []byte("</body>"), end, 1)
	_, err = w.Write(html)
	return err
}

// inline puts the embedded files that tags name in their place.
func inline(html []byte, tag *regexp.Regexp, as func(text []byte) []byte) []byte {
	return tag.ReplaceAllFunc(html, func(found []byte) []byte {
		text, err := pageFiles.ReadFile("page/" + string(tag.FindSubmatch(found)[1]))
		if err != nil {
			panic(err) // embedded
		}
		return as(text)
	})
}

func wrap(before string, text []byte, after string) []byte {
	return slices.Concat([]byte(before), text, []byte(after))
}

// recordFile writes the record to a file.
func recordFile(name string, messages []json.RawMessage) error {
	var page bytes.Buffer
	if err := recordTo(&page, messages); err != nil {
		return err
	}
	return os.WriteFile(name, page.Bytes(), 0o600) //nolint:gosec // the file that the user names
}

// recordSale plays one sale as the page would show it, writes the page, and
// returns the result.
func recordSale(ctx context.Context, cfg config, con *console) (res result, err error) {
	h, played := newHub(), false
	st := newStage(ctx, cfg, h, func(r result) { played, res, err = true, r, recordFile(cfg.record, h.messages()) })
	con.printf("recording a sale: mode %s, %s requests for %s items\n", cfg.Mode,
		thousands(cfg.Requests), thousands(cfg.Stock))
	if err := st.start(cfg, 0); err != nil {
		return result{}, err
	}
	st.close()
	if !played {
		var last update
		messages := h.messages()
		_ = json.Unmarshal(messages[len(messages)-1], &last) // ours
		return res, errors.New(last.Error)
	}
	if err != nil {
		return res, fmt.Errorf("-record: %w", err)
	}
	con.printf("the page with this sale in it is %s\n", cfg.record)
	return res, nil
}

// openRecord makes sure that the file can be written before anything is played.
func openRecord(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file that the user names
	if err != nil {
		return fmt.Errorf("-record: %w", err)
	}
	return f.Close()
}
