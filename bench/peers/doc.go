// Package peers puts the libraries that compete with guard through the rows of
// docs/faults.md. Nothing of what they do is asserted: they promise what they
// promise, and the page has what was seen.
//
//	go -C bench test -v ./peers -all                   # all rows, for minutes
//	go -C bench test -v ./peers -all -run /Fault17     # one of them
//	go -C bench test ./peers -all -update              # and note it; then run ./faults with -update
//
// Without -all a few rows show that the package works.
package peers
