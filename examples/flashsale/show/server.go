package show

import (
	"context"
	"net"
	"net/http"
	"time"
)

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
