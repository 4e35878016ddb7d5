// Package faults tries each fault of docs/faults.md on real servers: one test
// for each row of that page, which carries its number and what must hold.
//
//	go -C internal/torture test -race -run 'Fault17' ./faults
//
// Guard must hold what a row says; with -update what it did is written into the
// page. The rows of the competitors are in bench/peers.
package faults
