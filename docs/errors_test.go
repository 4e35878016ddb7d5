package docs_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/internal/doccheck"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// The tables of errors.md. They have each code and each sentinel, and no other.
// Their translation is compared with them by package doccheck.

// causes has an error for each code of package outcome.
var causes = map[outcome.Code]error{
	outcome.CodeHeld:          &guard.HeldError{},
	outcome.CodeQueueFull:     guard.ErrQueueFull,
	outcome.CodeUnavailable:   guard.ErrUnavailable,
	outcome.CodeWaitAborted:   errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded),
	outcome.CodeLost:          guard.ErrLeaseLost,
	outcome.CodeKeyInvalid:    &keyfunc.Error{Source: "path", Name: "sku", Err: keyfunc.ErrMissing},
	outcome.CodeBodyTooLarge:  &keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrTooLarge},
	outcome.CodeMediaType:     &keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMediaType},
	outcome.CodeTooManyKeys:   keyfunc.ErrTooManyKeys,
	outcome.CodeMisconfigured: guard.ErrNoDefault,

	outcome.CodeIdempotencyInvalid: httpguard.BlameKey(keyfunc.ErrMissing),
	outcome.CodeIdempotencyReused:  httpguard.BlameKey(guard.ErrOtherPayload),
	outcome.CodeIdempotencyGone:    httpguard.BlameKey(guard.ErrResultGone),

	outcome.CodeIdempotencyInterrupted: httpguard.BlameKey(guard.ErrInterrupted),
}

// sentinels has the exported errors of three packages by name.
var sentinels = map[string]error{
	"guard.ErrNotAcquired": guard.ErrNotAcquired, "guard.ErrQueueFull": guard.ErrQueueFull,
	"guard.ErrLeaseLost": guard.ErrLeaseLost, "guard.ErrMaxHold": guard.ErrMaxHold,
	"guard.ErrUnavailable": guard.ErrUnavailable, "guard.ErrClosed": guard.ErrClosed,
	"guard.ErrInvalidKey": guard.ErrInvalidKey, "guard.ErrInvalidOption": guard.ErrInvalidOption,
	"guard.ErrNoDefault": guard.ErrNoDefault, "guard.ErrNoLease": guard.ErrNoLease,
	"guard.ErrNotRecorded": guard.ErrNotRecorded, "guard.ErrOtherPayload": guard.ErrOtherPayload,
	"guard.ErrResultGone": guard.ErrResultGone, "guard.ErrInterrupted": guard.ErrInterrupted,
	"keyfunc.ErrMissing": keyfunc.ErrMissing, "keyfunc.ErrAmbiguous": keyfunc.ErrAmbiguous,
	"keyfunc.ErrInvalid": keyfunc.ErrInvalid, "keyfunc.ErrMediaType": keyfunc.ErrMediaType,
	"keyfunc.ErrTooLarge": keyfunc.ErrTooLarge, "keyfunc.ErrNoSource": keyfunc.ErrNoSource,
	"keyfunc.ErrTooManyKeys": keyfunc.ErrTooManyKeys,
	"fence.ErrLateWrite":     fence.ErrLateWrite,
}

func TestTheTablesOfErrorsAreComplete(t *testing.T) {
	if got, want := len(sentinels), len(exported(t, "..", "../keyfunc", "../fence")); got != want {
		t.Errorf("the packages have %d sentinels, this test knows %d", want, got)
	}
	if got, want := len(causes), len(declared(t, "../outcome", "Code")); got != want {
		t.Errorf("package outcome has %d codes, this test knows %d", want, got)
	}
	for _, problem := range wrongErrors(load(t, "errors.md")) {
		t.Error(problem)
	}
}

func TestAFaultPlantedInTheTablesOfErrorsIsFound(t *testing.T) {
	for _, plant := range []func(p *doccheck.Page){
		func(p *doccheck.Page) { p.Sections[2].Tables[0].Rows[1][1] = "410" },
		func(p *doccheck.Page) { p.Sections[2].Tables[0].Rows[2][2] = "no" },
		func(p *doccheck.Page) { p.Sections[2].Tables[0].Rows[3][3] = "`Sorry.`" },
		func(p *doccheck.Page) { p.Sections[2].Tables[0].Rows[4][0] = "`lock_odd`" },
		func(p *doccheck.Page) { p.Sections[3].Tables[0].Rows[1][1] = "`INTERNAL`" },
		func(p *doccheck.Page) { p.Sections[3].Tables[0].Rows[7][0] = "`LOCK_ODD`" },
		func(p *doccheck.Page) { p.Sections[4].Tables[0].Rows[1][1] = "`guard: busy`" },
		func(p *doccheck.Page) { p.Sections[4].Tables[1].Rows[7][0] = "`fence.ErrOdd`" },
		func(p *doccheck.Page) { p.Sections[4].Tables[1].Rows[1][3] = "`lock_held`" },
	} {
		page := load(t, "errors.md")
		plant(page)
		if len(wrongErrors(page)) == 0 {
			t.Errorf("not found: %+v", page.Sections[1:])
		}
	}
}

// wrongErrors returns what is wrong with the tables of the page.
func wrongErrors(page *doccheck.Page) []string {
	http, grpc, code := page.Sections[2].Tables, page.Sections[3].Tables, page.Sections[4].Tables
	found := wrongRows(http[0], slices.Collect(maps.Keys(codesOf())), func(row []string) []string {
		o := codesOf()[unquoted(row[0])]
		return []string{
			strconv.Itoa(o.Status), yes(o.RetryAfter > 0), "`" + o.Detail + "`",
			ran(o),
		}
	})
	found = append(found, wrongRows(grpc[0], reasons(), func(row []string) []string {
		o := codesOf()[strings.ToLower(unquoted(row[0]))]
		return []string{"`" + names[rpcguard.Code(o)] + "`"}
	})...)
	both := doccheck.Table{Rows: slices.Concat(code[0].Rows, code[1].Rows[1:])}
	found = append(found, wrongRows(both, slices.Collect(maps.Keys(sentinels)), func(row []string) []string {
		return []string{"`" + sentinels[unquoted(row[0])].Error() + "`"}
	})...)
	for _, row := range code[1].Rows[1:] {
		o, ours := outcome.Of(context.Background(), sentinels[unquoted(row[0])])
		if ours && row[3] != "`"+string(o.Code)+"`" {
			found = append(found, fmt.Sprintf("%s gives %s, the table says %s", row[0], o.Code, row[3]))
		}
	}
	return found
}

// wrongRows compares the names in the first column of a table with want, and
// the columns behind it with those that rest makes of a row.
func wrongRows(table doccheck.Table, want []string, rest func(row []string) []string) []string {
	var found, have []string
	for _, row := range table.Rows[1:] {
		name := unquoted(row[0])
		have = append(have, name)
		if !slices.Contains(want, name) {
			continue // the lists differ
		}
		for i, cell := range rest(row) {
			if row[i+1] != cell {
				found = append(found, fmt.Sprintf("%s: %q in the table, want %q", name, row[i+1], cell))
			}
		}
	}
	slices.Sort(have)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(have, want) {
		found = append(found, fmt.Sprintf("the table has %q, want %q", have, want))
	}
	return found
}

// codesOf returns the outcome for each code.
func codesOf() map[string]outcome.Outcome {
	codes := map[string]outcome.Outcome{}
	for code, err := range causes {
		o, _ := outcome.Of(context.Background(), err)
		codes[string(code)] = o
	}
	return codes
}

// reasons returns the reasons of gRPC. A message has no body of its own and no
// Content-Type.
func reasons() []string {
	var list []string
	for code, o := range codesOf() {
		if o.Code != outcome.CodeBodyTooLarge && o.Code != outcome.CodeMediaType {
			list = append(list, strings.ToUpper(code))
		}
	}
	return list
}

// names has the names of gRPC's codes.
var names = map[uint32]string{
	rpcguard.InvalidArgument: "INVALID_ARGUMENT", rpcguard.DeadlineExceeded: "DEADLINE_EXCEEDED",
	rpcguard.ResourceExhausted: "RESOURCE_EXHAUSTED", rpcguard.Aborted: "ABORTED", rpcguard.Internal: "INTERNAL",
	rpcguard.Unavailable: "UNAVAILABLE", rpcguard.FailedPrecondition: "FAILED_PRECONDITION",
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// ran says whether the handler has run, in the words of the tables.
func ran(o outcome.Outcome) string {
	if o.Code == outcome.CodeIdempotencyGone || o.Code == outcome.CodeIdempotencyInterrupted {
		return "before"
	}
	return yes(o.Code == outcome.CodeLost)
}

func unquoted(cell string) string { return strings.Trim(cell, "`") }

// exported returns the package-level variables that begin with Err.
func exported(t *testing.T, dirs ...string) (list []string) {
	t.Helper()
	for _, dir := range dirs {
		values(t, dir, token.VAR, func(spec *ast.ValueSpec) {
			for _, name := range spec.Names {
				if strings.HasPrefix(name.Name, "Err") {
					list = append(list, name.Name)
				}
			}
		})
	}
	return list
}

// declared returns the constants of that type.
func declared(t *testing.T, dir, typ string) (list []string) {
	t.Helper()
	values(t, dir, token.CONST, func(spec *ast.ValueSpec) {
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
			for _, name := range spec.Names {
				list = append(list, name.Name)
			}
		}
	})
	return list
}

// values calls do for the package-level declarations of the files in dir,
// without tests.
func values(t *testing.T, dir string, kind token.Token, do func(*ast.ValueSpec)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_go127.go") { // Go 1.26 cannot parse it
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == kind {
				for _, spec := range decl.Specs {
					do(spec.(*ast.ValueSpec))
				}
			}
		}
	}
}
