package keypart

import (
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
)

// proto is what a generated protobuf message looks like.
type proto struct{}

func (*proto) ProtoMessage()  {}
func (*proto) String() string { return "id:7" }

func TestADirectiveTakesWhatKeyTakesAndRefusesWhatItRefuses(t *testing.T) {
	now, seven := time.Now(), 7
	values := map[string]any{ // by their type
		"string": "a", "int8": int8(7), "uint64": uint64(7), "uintptr": uintptr(7), "bool": true, "rune": 'a',
		"byte":    byte(7),
		"float64": 1.5, "complex64": complex64(1), "[]byte": []byte("a"), "[2]int": [2]int{1, 2}, "*int": &seven,
		"map[string]int": map[string]int{"a": 1}, "func()": func() {}, "chan int": make(chan int),
		"struct{}": struct{}{},
		"error":    context.Canceled,

		"time.Time": now, "*time.Time": &now, "time.Duration": time.Second, "time.Weekday": time.Friday,
		"*big.Int": big.NewInt(7), "big.Int": *big.NewInt(7), "*big.Rat": big.NewRat(1, 2),
		"*big.Float": big.NewFloat(1), "big.Float": *big.NewFloat(1),
		"net.IP": net.IPv4zero, "netip.Addr": netip.IPv6Unspecified(), "*url.URL": &url.URL{Path: "/a"},
		"url.URL":         url.URL{Path: "/a"},
		"context.Context": t.Context(), "reflect.Type": reflect.TypeFor[int](), "reflect.Value": reflect.ValueOf(7),
		"*proto": &proto{}, "proto": proto{},
	}
	var src strings.Builder
	src.WriteString(`package p
import ("context"; "math/big"; "net"; "net/netip"; "net/url"; "reflect"; "time")
type proto struct{}
func (*proto) ProtoMessage() {}
func (*proto) String() string
`)
	var names []string
	for typ := range values {
		fmt.Fprintf(&src, "var v%d %s\n", len(names), typ)
		names = append(names, typ)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", src.String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", nil)}
	p, err := conf.Check("p", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range names {
		kind := Unfit(p.Scope().Lookup(fmt.Sprintf("v%d", i)).Type())
		if taken := guard.Key(values[typ]) != ""; taken != (kind == "") {
			t.Errorf("%s: Key takes it: %v; guardgen says %q", typ, taken, kind)
		}
	}
}
