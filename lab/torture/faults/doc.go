// Package faults tries each fault of docs/faults.md on real servers. It has one
// test for each row of that page. The test has the row's number and the
// conditions that must hold.
//
//	go -C lab test -race -run 'Fault17' ./torture/faults
//
// Guard must do what a row says. With -update its results are written into
// testdata/seen.json, which has what was seen in detail, and the page is made
// anew. What the competitors did was seen in autumn 2026, and stays there.
package faults
