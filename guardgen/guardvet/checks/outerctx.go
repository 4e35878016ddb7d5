package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var outerCtx = newAnalyzer("outerctx", `report guarded functions that work on the context around them

The context that a guarded function gets ends when its lease is lost, and carries the
lease. Work on the context outside, or on context.Background(), goes on when another
holder runs, and a call there for the same key waits for itself until MaxWait is over.
A function that uses its own context too may have its reasons.`, never, checkOuterCtx)

func checkOuterCtx(pass *analysis.Pass, c call) {
	if !c.isGuard("Do", "DoAll", "TryDo", "Call", "Lead", "Wrap") {
		return
	}
	fn, ok := c.argument("fn").(*ast.FuncLit)
	if !ok || uses(pass, fn.Body, ownContext(pass, fn)) {
		return
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		inner, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if callee, ok := typeutil.Callee(pass.TypesInfo, inner).(*types.Func); ok && isHarmless(callee) {
			return false
		}
		if isRoot(pass, inner) {
			pass.ReportRangef(inner, "the function has a context of its own, which ends when the lease is lost: "+
				"use that, not %s",
				types.ExprString(inner))
		}
		for _, arg := range inner.Args {
			if isOuterContext(pass, fn, arg) {
				pass.ReportRangef(arg, "the function has a context of its own, which ends when the lease is lost: "+
					"use that, not %s",
					types.ExprString(arg))
			}
		}
		return true
	})
}

// isOuterContext reports whether expr is a context from outside of fn. That is
// a variable, or the result of the Context method of an HTTP request.
func isOuterContext(pass *analysis.Pass, fn *ast.FuncLit, expr ast.Expr) bool {
	t := pass.TypesInfo.TypeOf(expr)
	switch expr := ast.Unparen(expr).(type) {
	case *ast.Ident:
		v, ok := pass.TypesInfo.Uses[expr].(*types.Var)
		inside := ok && fn.Pos() <= v.Pos() && v.Pos() < fn.End()
		return ok && !inside && (isContext(t) || isGinContext(t))
	case *ast.CallExpr:
		method, ok := ast.Unparen(expr.Fun).(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Context" && isNamed(pass.TypesInfo.TypeOf(method.X), "net/http", "Request")
	}
	return false
}

// isRoot reports whether expr calls context.Background or context.TODO.
func isRoot(pass *analysis.Pass, expr *ast.CallExpr) bool {
	fn, ok := typeutil.Callee(pass.TypesInfo, expr).(*types.Func)
	return ok && (fn.FullName() == "context.Background" || fn.FullName() == "context.TODO")
}

// isHarmless reports whether the work of fn with a context can go on without
// the lease. That is logging, and work that is intended to go on.
func isHarmless(fn *types.Func) bool {
	return fn.FullName() == "context.WithoutCancel" || fn.Pkg() != nil && fn.Pkg().Path() == "log/slog"
}
