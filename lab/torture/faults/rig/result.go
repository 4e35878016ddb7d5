package rig

import (
	"encoding/json"
	"maps"
	"os"
)

// Result is the result of one library in one row of docs/faults.md.
type Result struct {
	Kept Verdict `json:"kept"`
	Does string  `json:"does"`
}

// Verdict tells whether a library does what the row demands.
type Verdict string

// The verdicts.
const (
	Yes   Verdict = "yes"
	No    Verdict = "no"
	Parts Verdict = "in part"
	None  Verdict = "-" // not tried, or not applicable for the reason given
)

// Results holds results by the row's number and the library's name.
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

// Update puts r into a file. It replaces the file's results of the same rows
// and libraries. It returns all results that the file then has.
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
