package checks

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var outerCtx = newAnalyzer("outerctx", `report work under a lease on the context around it

The context that a guarded function gets, or that lease.Context() returns after Acquire,
ends when the lease is lost, and carries the lease. Work on the context outside, or on
context.Background(), goes on when another holder runs, and a call there for the same
key waits for itself until MaxWait is over. Code that uses the lease's own context too
may have its reasons.`, never, checkOuterCtx)

func checkOuterCtx(pass *analysis.Pass, c call) {
	s, ok := sectionOf(pass, c)
	if !ok {
		return
	}
	advice := "the function has a context of its own, which ends when the lease is lost: use that, not %s"
	if s.lease != nil {
		advice = "work under a lease ends when it is lost: use " + s.lease.Name() + ".Context(), not %s"
		if !onlyReleased(pass, c, s.lease) {
			return
		}
	} else if fn := s.cur.Node().(*ast.FuncLit); uses(pass, fn.Body, ownContext(pass, fn)) {
		return
	}
	for cur := range s.calls(pass) {
		inner := cur.Node().(*ast.CallExpr)
		if isRoot(pass, inner) {
			pass.ReportRangef(inner, advice, types.ExprString(inner))
		}
		sig, ok := pass.TypesInfo.TypeOf(inner.Fun).Underlying().(*types.Signature)
		if !ok {
			continue // a conversion, or a built-in function
		}
		for param, arg := range (call{CallExpr: inner, sig: sig}).arguments() {
			if isContext(param.Type()) && isOuterContext(pass, s, arg) {
				pass.ReportRangef(arg, advice, types.ExprString(arg))
			}
		}
	}
}

// isOuterContext reports whether expr is a context from outside of s. That is a
// variable, a field, or the result of a method Context, as that of a request.
func isOuterContext(pass *analysis.Pass, s section, expr ast.Expr) bool {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.Ident, *ast.SelectorExpr:
		t := pass.TypesInfo.TypeOf(expr)
		return (isContext(t) || isGinContext(t)) && s.isOutside(pass, expr)
	case *ast.CallExpr:
		method, ok := ast.Unparen(expr.Fun).(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Context" && len(expr.Args) == 0 && s.isOutside(pass, method.X)
	}
	return false
}

// onlyReleased reports whether the function around c does nothing with the lease
// but to release it. One that asks for its Err, Deadline or FencingToken may do
// without its context.
func onlyReleased(pass *analysis.Pass, c call, lease types.Object) bool {
	for outermost := range c.cur.Enclosing((*ast.FuncDecl)(nil)) {
		for use := range outermost.Preorder((*ast.Ident)(nil)) {
			if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] != lease {
				continue
			}
			switch parent := use.Parent().Node().(type) {
			case *ast.SelectorExpr:
				if !slices.Contains([]string{"Release", "Key"}, parent.Sel.Name) {
					return false
				}
			case *ast.BinaryExpr: // lease != nil
			default:
				return false
			}
		}
	}
	return true
}

// isRoot reports whether expr calls context.Background or context.TODO.
func isRoot(pass *analysis.Pass, expr *ast.CallExpr) bool {
	fn, ok := typeutil.Callee(pass.TypesInfo, expr).(*types.Func)
	return ok && (fn.FullName() == "context.Background" || fn.FullName() == "context.TODO")
}

// isHarmless reports whether the work of fn with a context can go on without
// the lease. That is logging, counting, work that is intended to go on, and the
// release itself.
func isHarmless(fn *types.Func) bool {
	switch fn.FullName() {
	case "context.WithoutCancel", "(*" + module + ".Lease).Release":
		return true
	}
	return fn.Pkg() != nil &&
		(fn.Pkg().Path() == "log/slog" || strings.HasPrefix(fn.Pkg().Path(), "go.opentelemetry.io/otel/metric"))
}
