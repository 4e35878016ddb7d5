// Package peers runs the rows of docs/faults.md with the libraries that compete
// with guard. Nothing is asserted about them, because their promises differ.
// The page has the results.
//
//	go -C lab test -v ./bench/peers -all                   # all rows, for minutes
//	go -C lab test -v ./bench/peers -all -run /Fault17     # one of them
//	go -C lab test ./bench/peers -all -update              # and note it; then run ./torture/faults with -update
//
// Without -all a few rows show that the package works.
package peers
