// Package checks has the analyzers of guardvet. They find mistakes in the use
// of package guard that the compiler accepts and that no test notices by
// itself.
//
//	rawkeys     a key that is concatenated, or has an empty part
//	keyparts    a part for which guard.Key always gives ""
//	templates   a route's template without a placeholder: one lock for everybody; a placeholder without a parameter
//	durations   a bare number where a time.Duration is meant: WithMaxWait(3) is 3 ns
//	outerctx    work under a lease on the context around it
//	noctx       a call under a lease that gets no context
//	commits     a transaction that commits after the lease
//	ginctx      a gin.Context as a context: it does not end with the lease
//	dropped     a result that nobody looks at, as of With or Do
//	unreleased  an acquired lease that is never released, or not on each way out
//	goroutines  a goroutine under a lease that nobody waits for
//	handlers    a lock after the handler of a gin route
//	nested      two keys inside each other, in no order
//	tokens      guard.FencingToken in a DoAll of several keys
//	perrequest  guard.New or With in a handler or a loop, and lockmw.Key in a handler
//	grpcmethods a gRPC method as a text instead of its generated constant
//
// They report nothing that they would have to guess:
//
//   - a constant key in a handler, because a service may have one job
//   - guard.Key("stock", id) with an id that nobody has set
//   - an r.Use behind the routes that it should guard, because the routes
//     before it may be free on purpose
//   - keys that functions nest in different orders by calling each other
//   - a verb that is called by a method value, or by an interface of its own
//   - a guard.New in a function that a handler calls, because it may run once
//   - another try after ErrLeaseLost, which a step that may run twice can make
//   - a writer under WithShared, because its readers may be elsewhere
//
// The log tells of keys in different orders when a call waits in vain, and
// package guardtest finds a lock that is missing.
//
// An analyzer sees one package at a time. It reports code that is surely a
// mistake, and ignores code that it cannot follow. Tests may do as they like,
// with two exceptions. A dropped error of a verb, or a raw key for package
// guardtest, would let a test pass that proves nothing.
package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// All returns the analyzers.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		rawKeys, keyParts, templates, durations, outerCtx, ginCtx, dropped, unreleased, goroutines,
		handlers, nested, perRequest, grpcMethods, noCtx, commits, tokens,
	}
}

// newAnalyzer returns an analyzer that calls check for each call of guard's
// packages. In the code of tests it does so only for the calls for which
// inTests returns true.
func newAnalyzer(name, doc string, inTests func(call) bool, check func(*analysis.Pass, call)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      doc,
		URL:      url,
		Requires: []*analysis.Analyzer{inspect.Analyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			once := reportOnce(pass)
			for cur, test := range callExprs(pass) {
				if c, ok := newCall(pass.TypesInfo, cur); ok && (!test || inTests(c)) {
					check(once, c)
				}
			}
			return nil, nil
		},
	}
}

// reportOnce returns a pass that reports a finding once, though several calls may
// lead to it.
func reportOnce(pass *analysis.Pass) *analysis.Pass {
	type finding struct {
		pos  token.Pos
		text string
	}
	reported := make(map[finding]bool)
	once := *pass
	once.Report = func(d analysis.Diagnostic) {
		if f := (finding{d.Pos, d.Message}); !reported[f] {
			reported[f] = true
			pass.Report(d)
		}
	}
	return &once
}

const url = "https://" + module + "/blob/main/guardgen/README.md#guardvet"

// never is for analyzers that ignore tests.
func never(call) bool { return false }

// callExprs iterates over all calls of a package. With each it yields whether
// the call is in the code of tests.
func callExprs(pass *analysis.Pass) iter.Seq2[inspector.Cursor, bool] {
	return func(yield func(inspector.Cursor, bool) bool) {
		root := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()
		helper := slices.ContainsFunc(pass.Files,
			func(f *ast.File) bool { return !isTest(pass, f) && importsTesting(f) })
		for file := range root.Preorder((*ast.File)(nil)) {
			test := helper || isTest(pass, file.Node().(*ast.File))
			for cur := range file.Preorder((*ast.CallExpr)(nil)) {
				if !yield(cur, test) {
					return
				}
			}
		}
	}
}

func isTest(pass *analysis.Pass, file *ast.File) bool {
	return strings.HasSuffix(pass.Fset.File(file.FileStart).Name(), "_test.go")
}

// importsTesting reports whether file imports testing. If such a file is no
// test, its package has helpers for tests.
func importsTesting(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing"` })
}

// module is the path of the root package.
const module = "github.com/go-lockguard/guard"

// call is a call of a function or method of the module.
type call struct {
	*ast.CallExpr
	cur inspector.Cursor
	fn  *types.Func
	sig *types.Signature
}

func newCall(info *types.Info, cur inspector.Cursor) (call, bool) {
	expr := cur.Node().(*ast.CallExpr)
	fn, ok := typeutil.Callee(info, expr).(*types.Func)
	if !ok || fn.Pkg() == nil || !fn.Exported() ||
		fn.Pkg().Path() != module && !strings.HasPrefix(fn.Pkg().Path(), module+"/") {
		return call{}, false
	}
	return call{expr, cur, fn, fn.Signature()}, true
}

// isGuard reports whether c calls the function or method of package guard that
// has one of the names.
func (c call) isGuard(names ...string) bool {
	return c.fn.Pkg().Path() == module && slices.Contains(names, c.fn.Name())
}

// isKey reports whether c calls guard.Key.
func (c call) isKey() bool { return c.isGuard("Key") && c.sig.Recv() == nil }

// isGuardtest reports whether c calls a function or method of package
// guardtest.
func (c call) isGuardtest() bool { return c.fn.Pkg().Path() == module+"/guardtest" }

// isMiddleware reports whether c calls a function of a package lockmw.
func (c call) isMiddleware() bool { return isMiddleware(c.fn.Pkg().Path()) }

func isMiddleware(path string) bool { return strings.HasPrefix(path, module+"/middleware/") }

// takesKeys reports whether the keys that c takes are those of guard.Key.
// Stores have their own.
func (c call) takesKeys() bool {
	path := c.fn.Pkg().Path()
	return path == module || c.isMiddleware() || c.isGuardtest() || strings.HasPrefix(path, module+"/jobs/")
}

// arguments iterates over the arguments of c with their parameters. Each
// argument of a variadic parameter comes with that parameter.
func (c call) arguments() iter.Seq2[*types.Var, ast.Expr] {
	return func(yield func(*types.Var, ast.Expr) bool) {
		params := c.sig.Params()
		if len(c.Args) < params.Len()-1 || params.Len() == 0 {
			return // f(g()) with several results
		}
		for i, arg := range c.Args {
			if !yield(params.At(min(i, params.Len()-1)), arg) {
				return
			}
		}
	}
}

// argument returns the argument for the parameter of the given name, or nil.
func (c call) argument(name string) ast.Expr {
	for param, arg := range c.arguments() {
		if param.Name() == name {
			return arg
		}
	}
	return nil
}

// isVerb reports whether c makes a lease on a key and waits for it.
func (c call) isVerb() bool {
	return c.isGuard("Do", "DoAll", "TryDo", "Call", "Once", "OnceBytes", "Lead", "Acquire", "TryAcquire")
}

// isNamed reports whether t is the type of that name in a package whose path
// begins with path, or a pointer to it. So other major versions are included.
func isNamed(t types.Type, path, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Name() != name || n.Obj().Pkg() == nil {
		return false
	}
	rest, ok := strings.CutPrefix(n.Obj().Pkg().Path(), path)
	return ok && (rest == "" || strings.HasPrefix(rest, "/v"))
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isGinContext(t types.Type) bool { return isNamed(t, "github.com/gin-gonic/gin", "Context") }
