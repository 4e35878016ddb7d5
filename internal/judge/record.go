package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Record is one line of a worker's history. A visit that gets its key writes
// one record before it uses the key, and one before it releases the key. So a
// worker that is killed has left everything that is known.
type Record struct {
	Kind string `json:"e"`
	N    int64  `json:"n,omitempty"` // number of the visit in this life
	Key  int    `json:"k,omitempty"`

	// how many may have the key at once; 0 and 1 mean that the visit is alone
	Limit int  `json:"limit,omitempty"`
	Cart  bool `json:"cart,omitempty"` // one of several keys of a call

	// got and not record the result of a wait.
	Asked int64  `json:"asked,omitempty"` // when it began
	Bound int64  `json:"bound,omitempty"` // its max duration in ns
	At    int64  `json:"at,omitempty"`    // when it ended
	Token uint64 `json:"token,omitempty"`
	// the library trusts the lease until then, at the time of the record; 0 if
	// it does not tell
	Until int64 `json:"until,omitempty"`

	// end records the result of a section.
	Held    int64  `json:"held,omitempty"`    // when it was last seen to be held; 0 means never
	Lost    int64  `json:"lost,omitempty"`    // when the holder was told that it was lost
	Closing bool   `json:"closing,omitempty"` // after the worker began to close its locker
	Wrote   int64  `json:"wrote,omitempty"`   // when its write to the store was answered
	Refused bool   `json:"refused,omitempty"` // by the fence
	Broken  bool   `json:"broken,omitempty"`  // whether its read and write are not known to have worked
	Probe   *Probe `json:"probe,omitempty"`
	// token of a call for the same key inside the section; 0 if none, or not
	// known
	Inner  uint64 `json:"inner,omitempty"`
	Denied bool   `json:"denied,omitempty"` // whether that call was refused

	// freed records that its release failed at At.
	Taken bool `json:"taken,omitempty"` // another holder had the key, or it was gone

	Err string `json:"err,omitempty"` // what failed; in got, the request for its token

	// began, undone and result record a call whose result is kept.
	Name   string `json:"name,omitempty"`   // its key
	Fresh  bool   `json:"fresh,omitempty"`  // its function ran in this call
	Result string `json:"result,omitempty"` // the start of it

	// stall records that the process did not run from Asked to At. closed
	// records the leftovers when its locker was closed.
	Goroutines int `json:"goroutines,omitempty"` // the increase since it was opened
	Files      int `json:"files,omitempty"`
}

// Probe is a question to the server, past the failing network, how long the key
// of a section would last.
type Probe struct {
	Until int64 `json:"until"` // the library trusted the lease until then, before the question
	At    int64 `json:"at"`    // when the answer had arrived
	TTL   int64 `json:"ttl"`   // ms; -2: there was no key, -1: it has no TTL
}

// Kinds of records.
const (
	KindGot    = "got"
	KindNot    = "not"
	KindEnd    = "end"
	KindFreed  = "freed"
	KindStall  = "stall"
	KindClosed = "closed"
)

// Diary writes records to a file, each at once.
type Diary struct {
	mu   sync.Mutex // held while a line is written
	file *os.File
}

// OpenDiary opens the file, or makes it. Its end is that of the process.
func OpenDiary(file string) (*Diary, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // a file of the parent's own
	return &Diary{file: f}, err
}

// Write writes one record.
func (d *Diary) Write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.file.Write(append(line, '\n'))
	return err
}

// ReadDiary returns the records in a file. The last may be torn if its writer
// was killed.
func ReadDiary(file string) (records []Record, err error) {
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
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		records = append(records, r)
	}
}
