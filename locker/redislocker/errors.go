package redislocker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// errNoAnswer is the error of an answer that cannot be used.
var errNoAnswer = redisconn.ErrNoAnswer

var errNotOwner = fmt.Errorf("%w: the key is not ours any more", locker.ErrLeaseLost)

// leaseError is the error that a holder's calls return for err. A refusal
// leaves as much in doubt as silence does. The one exception is a lock of
// another type, because it is not ours.
func leaseError(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == wrongType:
		return fmt.Errorf("%w: redislocker: %w", locker.ErrLeaseLost, &serverError{err})
	}
	return unclear(err)
}

func unclear(err error) error {
	var answer redis.Error
	if errors.As(err, &answer) {
		err = &serverError{err}
	}
	connecting := errors.Is(err, redisconn.ErrConnecting) && !errors.Is(err, redisconn.ErrSilentDial)
	if connecting || errors.Is(err, redisconn.ErrUnsent) {
		return fmt.Errorf("%w: redislocker: %w: %w", locker.ErrUnavailable, locker.ErrUnsent, err)
	}
	if silent(err) {
		err = silentError{err}
	}
	return fmt.Errorf("%w: redislocker: %w", locker.ErrUnavailable, err)
}

// silent reports whether err says that the server gave no answer: nobody
// listens, or nothing came in time. Somebody has broken a connection that
// breaks, and a queue that is full in this process says nothing about the
// server.
func silent(err error) bool {
	var answer redis.Error
	if errors.As(err, &answer) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redisconn.ErrUnsent) {
		return false
	}
	return errors.Is(err, redisconn.ErrSilentDial) || lockerkit.Silent(err)
}

// silentError is a [locker.ErrSilent] whose text is that of its cause.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

func (silentError) Is(target error) bool { return target == locker.ErrSilent }

// passing are the error codes of states that a server leaves by itself or by a
// failover.
var passing = []string{
	"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "OOM", "BUSY",
	maxClients,
}

const maxClients = "ERR max number of clients" // of a cluster, it goes on with "+ cluster connections"

// code returns the first word of a server's error. Errors inside a script have
// it in the middle, before Redis 7 and on servers other than Redis.
func code(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	first, _, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(text, maxClients):
		return maxClients
	case strings.Contains(text, "ACL failure"), strings.Contains(text, "can't run this command"):
		return "NOPERM"
	case strings.HasPrefix(text, "ERR unknown command"), // and in a script:
		strings.Contains(text, "Unknown Redis command"), strings.Contains(text, "Unknown command called"):
		return unknownCommand
	case first != "ERR":
		return first
	}
	for word := range strings.FieldsSeq(text) {
		word = strings.Trim(word, "-:'\"`,")
		if _, known := advice[word]; known || slices.Contains(passing, word) {
			return word
		}
	}
	return first
}

const (
	unknownCommand = "unknown command"
	wrongType      = "WRONGTYPE" // of the lock, or of the queue
	counterType    = "COUNTER"   // a wrong type, see tokens.lua
)

// advice says what to do when a server refuses a request.
var advice = map[string]string{
	"NOPERM":     "give the user the rights that the documentation of package redislocker lists",
	"NOAUTH":     "give the client a user name and password",
	"WRONGPASS":  "give the client the right user name and password",
	wrongType:    "something else uses this key, choose another prefix with WithPrefix",
	counterType:  "something else uses the key of the fencing tokens, choose another prefix with WithPrefix",
	"CROSSSLOT":  "keys with braces must reach Redis as they are, check for a proxy that renames them",
	"MOVED":      "the server is a node of a cluster, use a redis.ClusterClient",
	"ASK":        "the server is a node of a cluster, use a redis.ClusterClient",
	"NOSCRIPT":   "the server forgets scripts at once, check for a proxy that does not keep them",
	"NOREPLICAS": "fewer replicas are well than the server's min-replicas-to-write",
	"DENIED":     "the server is in protected mode, give it a password or bind it to an address",
	unknownCommand: "the server must be Redis 5 or newer, with scripts and all commands that redislocker's " +
		"documentation lists",
}

// serverError says what the server answered and what to do about it. It leaves
// out the arguments that the server repeats, because keys are among them.
type serverError struct{ cause error }

func (e *serverError) Unwrap() error { return e.cause }

func (e *serverError) Error() string {
	text, _, _ := strings.Cut(e.cause.Error(), ", with args beginning")
	if hint := advice[code(e.cause)]; hint != "" {
		return fmt.Sprintf("%s (%s)", text, hint)
	}
	return text
}
