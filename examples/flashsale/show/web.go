package show

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("-web: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	guarded := access{port: port, token: rand.Text()}
	h := newHub()
	st := newStage(ctx, cfg, h, func(res result) { report(cfg, res, h, con, stdout) })
	srv := &http.Server{
		Handler:           guarded.protect(newPage(h, st)),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second, // a stream is written, not read
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	con.raw("flash sale, live:  http://%s/?token=%s\n", l.Addr(), guarded.token)
	con.printf("Open it in a browser on this machine; whoever has the whole URL can start, stop and kill. " +
		"Ctrl-C ends it.\n")

	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }() // ends with Shutdown or Close below
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	st.close()
	h.end()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
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
	for path, press := range st.buttons() {
		mux.HandleFunc("POST /api/"+path, func(w http.ResponseWriter, r *http.Request) {
			var b button
			if err := readButton(w, r, &b); err != nil {
				refuse(w, http.StatusBadRequest, err.Error())
				return
			}
			if err := press(r.Context(), b); err != nil {
				refuse(w, http.StatusConflict, err.Error())
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	return mux
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
