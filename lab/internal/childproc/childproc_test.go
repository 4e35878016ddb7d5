package childproc

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if IsChild() {
		os.Exit(Main(echo))
	}
	goleak.VerifyTestMain(m)
}

// echo says the job, and once more after each word that it receives.
func echo(parent *Parent, job string) error {
	for job != "fails" {
		if err := parent.Say(job); err != nil {
			return err
		}
		if job == "floods" {
			continue
		}
		var word string
		if err := parent.Receive(&word); err != nil {
			return err
		}
		if job = word; word == "leave" {
			<-parent.Context().Done()
			return nil
		}
	}
	return errors.New("as it was told")
}

func start(t *testing.T, job string) *Child[string] {
	t.Helper()
	c, err := Start[string](t.Context(), "", job)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func TestAChildGetsItsJobAndLeaves(t *testing.T) {
	c := start(t, "first")
	for _, word := range []string{"second", "leave"} {
		<-c.Said
		if err := c.Send(word); err != nil {
			t.Fatal(err)
		}
	}
	c.Leave()
	<-c.Gone
	if _, more := <-c.Said; more || !c.State.Success() {
		t.Errorf("it ended with %v: %s", c.State, c.LastWords())
	}
}

func TestAChildThatFailsSaysWhy(t *testing.T) {
	c := start(t, "fails")
	<-c.Gone
	if c.State.ExitCode() != 1 || !strings.Contains(c.LastWords(), "as it was told") {
		t.Errorf("it ended with %v: %s", c.State, c.LastWords())
	}
}

func TestAChildThatNobodyHearsCanBeKilled(t *testing.T) {
	c := start(t, "floods")
	<-c.Said
	c.Kill()
	if status, _ := c.State.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", c.State)
	}
}
