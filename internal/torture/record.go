package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// record is one line of a worker's history. A visit that gets its key writes
// one before it uses it and one before it gives it back, so that a worker that
// is killed has left what is known.
type record struct {
	Kind string `json:"e"`
	N    int64  `json:"n,omitempty"` // of the visit, in this life
	Key  int    `json:"k,omitempty"`

	// got and not: how the wait went.
	Asked int64  `json:"asked,omitempty"` // when it began
	Bound int64  `json:"bound,omitempty"` // how long it may last, ns
	At    int64  `json:"at,omitempty"`    // when it ended
	Token uint64 `json:"token,omitempty"`
	// till when the library trusts the lease, at the time of the record; 0: it
	// does not say
	Until int64 `json:"until,omitempty"`

	// end: how the section went.
	Held    int64  `json:"held,omitempty"`    // when it was last seen to be held; 0: never
	Lost    int64  `json:"lost,omitempty"`    // when the holder was told that it was lost
	Closing bool   `json:"closing,omitempty"` // after the worker began to close its locker
	Wrote   int64  `json:"wrote,omitempty"`   // when its write to the store was answered
	Refused bool   `json:"refused,omitempty"` // by the fence
	Broken  bool   `json:"broken,omitempty"`  // what it read and wrote is not known to have worked
	Probe   *probe `json:"probe,omitempty"`
	// token of a call for the same key inside the section; 0: none, or not
	// known
	Inner  uint64 `json:"inner,omitempty"`
	Denied bool   `json:"denied,omitempty"` // that call was refused

	// freed: its release failed, at At.
	Taken bool `json:"taken,omitempty"` // it found the key with somebody else, or gone

	Err string `json:"err,omitempty"`

	// stall: the process did not run from Asked to At. closed: what was left
	// when its locker was closed.
	Goroutines int `json:"goroutines,omitempty"` // more than before it was opened
	Files      int `json:"files,omitempty"`
}

// probe is a look at the server, past the network that fails, how long the key
// of a section would last.
type probe struct {
	Until int64 `json:"until"` // till when the library trusted the lease before
	At    int64 `json:"at"`    // when the answer was there
	TTL   int64 `json:"ttl"`   // ms; -2: there was no key, -1: it has no TTL
}

// Kinds of records.
const (
	kindGot    = "got"
	kindNot    = "not"
	kindEnd    = "end"
	kindFreed  = "freed"
	kindStall  = "stall"
	kindClosed = "closed"
)

// diary writes records, each at once.
type diary struct {
	mu   sync.Mutex // held while a line is written
	file *os.File
}

func openDiary(file string) (*diary, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // a file of the parent's own
	return &diary{file: f}, err
}

func (d *diary) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.file.Write(append(line, '\n'))
	return err
}

// readDiary returns the records in a file; the last may be torn, if its writer
// was killed.
func readDiary(file string) (records []record, err error) {
	f, err := os.Open(file) //nolint:gosec // a file of the parent's own
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		records = append(records, r)
	}
}
