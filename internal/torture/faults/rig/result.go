package rig

import (
	"encoding/json"
	"maps"
	"os"
)

// Result is what one library did in one row of docs/faults.md.
type Result struct {
	Kept Verdict `json:"kept"`
	Does string  `json:"does"`
}

// Verdict says whether a library does what the row wants.
type Verdict string

// The verdicts.
const (
	Yes   Verdict = "yes"
	No    Verdict = "no"
	Parts Verdict = "in part"
	None  Verdict = "n/a" // not applicable, for the reason given
)

// Results are those of some rows: by the row's number and the library's name.
type Results map[int]map[string]Result

// Read returns the results in a file.
func Read(file string) (r Results, err error) {
	text, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &r)
	return r, err
}

// Update puts r into a file, in place of what was there of the same rows and
// libraries, and returns all that is there then.
func (r Results) Update(file string) (all Results, err error) {
	if all, err = Read(file); err != nil {
		return nil, err
	}
	for n, did := range r {
		if all[n] == nil {
			all[n] = map[string]Result{}
		}
		maps.Copy(all[n], did)
	}
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // it is part of the checkout
}
