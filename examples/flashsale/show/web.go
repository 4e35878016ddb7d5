package show

import (
	"bytes"
	"cmp"
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
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page
var embedded embed.FS

// page has the files of the page.
var page, _ = fs.Sub(embedded, "page")

// serveWeb serves the live page until ctx ends. People read on con, and with
// -json each run's result goes to stdout.
func serveWeb(ctx context.Context, cfg config, con *console, stdout io.Writer) error {
	addr, err := loopbackAddr(cfg.addr)
	if err != nil {
		return err
	}
	h, token := newHub(), rand.Text()
	st := newStage(ctx, cfg, h, func(last update) { report(cfg, last, h, con, stdout) })
	srv, failed, err := serve(ctx, addr, protect(token, newPage(h, st)))
	if err != nil {
		return fmt.Errorf("-web: %w", err)
	}
	query := url.Values{"token": {token}}
	if cfg.lang != "" {
		query.Set("lang", cfg.lang)
	}
	con.raw("%s  http://%s/?%s\n", con.say("web.live"), srv.Addr, query.Encode())
	con.printf("%s\n", con.say("web.open"))
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

// graceLimit is for how long a server that ends waits for its requests.
const graceLimit = 2 * time.Second

// serve starts a server at an address of this machine, which is in srv.Addr
// then. failed gets the error that ends it.
func serve(ctx context.Context, addr string, h http.Handler) (srv *http.Server, failed <-chan error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	srv = &http.Server{
		Addr: l.Addr().String(), Handler: h, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second, // a stream is written, not read
		IdleTimeout:       2 * time.Minute,  // clients here leave sooner
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }() // ends with Shutdown or Close
	return srv, served, nil
}

// newPage has the page, what it needs, and its buttons.
func newPage(h *hub, st *stage) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.Handle("GET /events", h)
	mux.HandleFunc("GET /record", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="flashsale.html"`)
		_ = recordTo(w, h.messages()) // the browser has gone
	})
	mux.HandleFunc("POST /api/{what}", func(w http.ResponseWriter, r *http.Request) {
		if err := st.press(r.Context(), r.PathValue("what"), http.MaxBytesReader(w, r.Body, 4<<10)); err != nil {
			refuse(w, http.StatusConflict, textOf(err))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// refuse answers that nothing was done, and why.
func refuse(w http.ResponseWriter, status int, why text) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]text{"error": why}) // the browser has gone
}

// report tells of a run that came to its end: on the console, to programs, and
// in a file.
func report(cfg config, last update, h *hub, con *console, stdout io.Writer) {
	res := last.Result
	if res == nil {
		return
	}
	con.printf("%s  \t%s\n", time.Now().Format(time.TimeOnly), con.say("web.result", "mode", res.Mode,
		"stock", res.Stock, "orders", res.Orders, "oversold", res.Oversold, "lost", res.LostUpdates,
		"late", res.LateWrites, "leases", res.LeasesLost))
	if cfg.json {
		_ = json.NewEncoder(stdout).Encode(res) // nobody reads any longer
	}
	if cfg.record != "" {
		if err := recordFile(cfg.record, h.messages()); err != nil {
			con.printf("flashsale: %v\n", err)
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
	host = cmp.Or(host, "127.0.0.1")
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
			refuse(w, http.StatusMisdirectedRequest, say("error.name"))
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.URL.Path != "/", // a link to the page is fine
			foreign.Check(r) != nil:
			refuse(w, http.StatusForbidden, say("error.site"))
		case r.Method != http.MethodGet && r.Method != http.MethodHead &&
			subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(token)) != 1:
			refuse(w, http.StatusForbidden, say("error.token"))
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

// publish adds a message. One with a run makes the last run forgotten.
func (h *hub) publish(m update) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message of ours that is no JSON
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.Run != nil {
		h.run++
		h.log = nil
	}
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
		late := out.SetWriteDeadline(time.Now().Add(h.patience))
		_, err := fmt.Fprintf(w, format, args...)
		return errors.Join(late, err)
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

// recordTo writes the page with these messages frozen in it.
func recordTo(w io.Writer, messages []json.RawMessage) error {
	frozen, err := json.Marshal(messages) // escapes <, so that no text ends the element
	if err != nil {
		return err
	}
	into := []string{
		"<head>", "<head>\n" + frozenPolicy,
		"<!-- frozen -->", `<script type="application/json" id="frozen">` + string(frozen) + "</script>",
	}
	err = fs.WalkDir(page, ".", func(name string, _ fs.DirEntry, _ error) error {
		text, _ := fs.ReadFile(page, name) // a folder has none
		into = append(into, `<link rel="stylesheet" href="`+name+`">`, "<style>"+string(text)+"</style>",
			`<script src="`+name+`"></script>`, "<script>"+string(text)+"</script>")
		return nil
	})
	html, err2 := fs.ReadFile(page, "index.html")
	if err = errors.Join(err, err2); err == nil {
		_, err = strings.NewReplacer(into...).WriteString(w, string(html))
	}
	return err
}

// recordFile writes the record to a file.
func recordFile(name string, messages []json.RawMessage) error {
	var b bytes.Buffer
	if err := recordTo(&b, messages); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}

// recordSale plays one sale as the page would show it, writes the page, and
// returns the result.
func recordSale(ctx context.Context, cfg config, con *console) (result, error) {
	var last update
	h := newHub()
	st := newStage(ctx, cfg, h, func(u update) { last = u })
	con.printf("%s\n", con.say("record.begun", "mode", cfg.Mode, "requests", thousands(cfg.Requests),
		"stock", thousands(cfg.Stock)))
	if err := st.start(cfg, 0); err != nil {
		return result{}, err
	}
	st.close()
	if last.Result == nil {
		return result{}, last.Error
	}
	con.printf("%s\n", con.say("record.written", "file", cfg.record))
	return *last.Result, recordFile(cfg.record, h.messages())
}
