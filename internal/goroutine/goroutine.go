// Package goroutine tells goroutines apart, for tests.
package goroutine

import (
	"bytes"
	"runtime"
	"strconv"
)

// Number returns the number of the calling goroutine, as its stack trace begins
// with it. Of two goroutines that one goroutine has started, the later one
// mostly has the higher number.
func Number() int {
	var buf [64]byte
	head := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(head, []byte(" "))
	n, err := strconv.Atoi(string(number))
	if err != nil {
		panic(err)
	}
	return n
}
