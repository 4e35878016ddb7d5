// Package peers runs the rows of docs/faults.md with the libraries that compete
// with guard. Nothing is asserted about them, because their promises differ.
// The page has the results.
//
//	go -C bench test -v ./peers -all                   # all rows, for minutes
//	go -C bench test -v ./peers -all -run /Fault17     # one of them
//	go -C bench test ./peers -all -update              # and note it; then run ./faults with -update
//
// Without -all a few rows show that the package works.
package peers
