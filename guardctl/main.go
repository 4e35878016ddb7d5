// Command guardctl shows the holders and waiters of the keys of package guard
// in Redis. It also releases a key by force. For the other stores see command
// guardctl/all.
//
//	go run github.com/go-lockguard/guard/guardctl@latest --url redis://localhost:6379 ls
//
// guardctl help describes its commands.
package main

import (
	"os"

	"github.com/go-lockguard/guard/guardctl/internal/ctl"
)

func main() { os.Exit(ctl.Main()) }
