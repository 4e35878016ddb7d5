// Guardvet reports mistakes in the use of package guard that compile and run,
// but lock too much or nothing. Package checks lists its findings.
//
//	go get -tool github.com/go-lockguard/guard/guardgen/guardvet
//	go tool guardvet ./...
//
// It also works as a tool of go vet, which keeps the results of packages that
// have not changed:
//
//	go install github.com/go-lockguard/guard/guardgen/guardvet@latest
//	go vet -vettool=$(which guardvet) ./...
//
// A check can be switched off by its name, as in -durations=false. The exit
// status is 0 if there is nothing to report.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/go-lockguard/guard/guardgen/guardvet/checks"
)

func main() { multichecker.Main(checks.All()...) }
