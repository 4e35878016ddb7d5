// Package faults tries each fault of docs/faults.md on real servers. It has one
// test for each row of that page. The test has the row's number and the
// conditions that must hold.
//
//	go -C lab test -race -run 'Fault17' ./torture/faults
//
// Guard must do what a row says. With -update its results are written into
// testdata/seen.json, which has what was seen in detail, and the page is made
// anew. The rows of the competitors are in lab/bench/peers.
package faults
