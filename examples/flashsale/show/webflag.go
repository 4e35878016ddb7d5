package show

import (
	"flag"
	"slices"
	"strings"
	"time"
)

// webFlag is -web, with an address or without one.
type webFlag struct{ c *config }

// IsBoolFlag lets the flag stand alone.
func (webFlag) IsBoolFlag() bool { return true }

func (webFlag) String() string { return "" }

func (f webFlag) Set(s string) error {
	f.c.web, f.c.addr = s != "false", ""
	if s != "true" && s != "false" {
		f.c.addr = s
	}
	return nil
}

// joinWeb makes "-web addr" one argument: a flag that can stand alone takes no
// second one.
func joinWeb(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args); i++ {
		if name := strings.TrimLeft(args[i], "-"); name == "web" && args[i] != name &&
			!strings.HasPrefix(args[i+1], "-") {
			args[i] += "=" + args[i+1]
			args = slices.Delete(args, i+1, i+2)
		}
	}
	return args
}

// calm makes what the command line leaves open slow and small enough to be
// looked at.
func (c *config) calm(fs *flag.FlagSet) {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	unless := func(name string, set func()) {
		if !given[name] {
			set()
		}
	}
	unless("stock", func() { c.stock = 200 })
	unless("requests", func() { c.requests = 600 })
	unless("concurrency", func() { c.concurrency = 24 })
	unless("think", func() { c.think = 20 * time.Millisecond })
	unless("wait", func() { c.wait = 10 * time.Second })
}
