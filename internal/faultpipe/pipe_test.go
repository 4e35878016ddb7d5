package faultpipe_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// plain passes everything on.
type plain struct {
	client, server net.Conn
	cutAt          string // text that the client must not send; "" for none
}

func (l *plain) Ends() (client, server net.Conn) { return l.client, l.server }
func (l *plain) Down(b []byte) bool              { return written(l.client, b) }

func (l *plain) Up(b []byte) bool {
	return (l.cutAt == "" || string(b) != l.cutAt) && written(l.server, b)
}

func written(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil
}

// answering is a server that echoes its input after the end of the input.
func answering(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all, _ := io.ReadAll(c)
			_, _ = c.Write(all)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	return l.Addr().String()
}

func piped(t *testing.T, cutAt string) *faultpipe.Pipe {
	t.Helper()
	addr := answering(t)
	p, err := faultpipe.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Serve(func(client net.Conn) (faultpipe.Link, error) {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		return &plain{client, server, cutAt}, nil
	})
	return p
}

func dialed(t *testing.T, p *faultpipe.Pipe) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

func TestAClientThatHasSentAllStillGetsItsAnswer(t *testing.T) {
	t.Parallel()
	c := dialed(t, piped(t, ""))
	if !written(c, []byte("hello")) || c.CloseWrite() != nil {
		t.Fatal("nothing can be sent")
	}
	if answer, err := io.ReadAll(c); string(answer) != "hello" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestALinkThatReportsFalseIsCut(t *testing.T) {
	t.Parallel()
	c := dialed(t, piped(t, "bad"))
	written(c, []byte("bad"))
	if answer, err := io.ReadAll(c); len(answer) > 0 || errors.Is(err, net.ErrClosed) {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestCutEndsTheChosenOnesAndCloseAll(t *testing.T) {
	t.Parallel()
	p := piped(t, "")
	stays, goes := dialed(t, p), dialed(t, p)
	for chosen := 0; chosen == 0; time.Sleep(time.Millisecond) { // until the connection is accepted
		p.Cut(func(l faultpipe.Link) bool {
			client, _ := l.Ends()
			is := client.RemoteAddr().String() == goes.LocalAddr().String()
			if is {
				chosen++
			}
			return is
		})
	}
	if _, err := goes.Read(make([]byte, 1)); isTimeout(err) {
		t.Error("it was not cut")
	}
	if !written(stays, []byte("x")) || stays.CloseWrite() != nil {
		t.Error("the other was cut")
	}
	if answer, _ := io.ReadAll(stays); string(answer) != "x" {
		t.Errorf("the other got %q", answer)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
