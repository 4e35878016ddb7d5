// Flashsale sells out a stock over real HTTP, through several app instances in
// processes of their own. It does so with a guard on the route, with fencing
// tokens too, without a guard, and as one atomic script. Package shop is the
// app, and package show is all that is around it. See README.md beside this
// file.
//
//	go run ./examples/flashsale
//	go run ./examples/flashsale -mode none
//	go run ./examples/flashsale -story
//	go run ./examples/flashsale -web
package main

import (
	"os"

	"github.com/go-lockguard/guard/examples/flashsale/show"
)

func main() { os.Exit(show.Main(os.Args[1:], os.Stdout, os.Stderr)) }
