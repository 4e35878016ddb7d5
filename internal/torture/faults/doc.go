// Package faults tries each fault of docs/faults.md on real servers: one test for each row of that page, which carries its
// number and what must hold.
//
//	go -C internal/torture test -race -run 'Fault17' ./faults
//
// Guard must hold what a row says. With -peers a row is tried with other lock libraries as well and what they did is
// logged; with -update it is written into the page too, whatever it is.
package faults
