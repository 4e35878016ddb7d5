package main

import (
	"testing"

	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/redistest"
)

// A worker that was stopped while its write was on the way may miss the answer.
// It must not write again, because that would look like a lost update.
func TestAWriteWithoutAnAnswerIsDoneOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	s := openStore(p.Addr)
	t.Cleanup(func() { _ = s.close() })
	Write := func(key int) error {
		_, err := s.Write(t.Context(), key, 7, "1.1.1", contest.Reading{}, false)
		return err
	}
	if err := Write(1); err != nil { // it knows the script now
		t.Fatal(err)
	}
	p.KillNextReply()
	if err := Write(0); err == nil {
		t.Error("the answer was not lost")
	}
	if log, err := s.log(t.Context(), 0); len(log) != 1 || err != nil {
		t.Errorf("the log: %v, %v", log, err)
	}
}
