package redislocker

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// go-redis may have the word of one sentinel where the others do not vote in time: that does not bring back a server that
// was not elected.
func TestAConnectionWithoutVotesIsLeftOnceAnotherServerIsElected(t *testing.T) {
	server, client := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(io.Discard, server) }() // ends with server
	w := &whereabouts{sentinels: &sentinels{}}
	dial := w.DialHook(func(context.Context, string, string) (net.Conn, error) { return client, nil })
	conn, err := dial(t.Context(), "tcp", sentinelAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("before any election: %v", err)
	}
	w.note(client.RemoteAddr().String())
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("to the elected server: %v", err)
	}
	w.note("192.0.2.1:6379")
	if _, err := conn.Write([]byte("x")); !errors.Is(err, errLeft) {
		t.Errorf("to another server than the elected one: %v, want errLeft", err)
	}
}
