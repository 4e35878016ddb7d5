package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var outerCtx = newAnalyzer("outerctx", `report guarded functions that work on the context around them

The context that a guarded function gets ends when its lease is lost, and carries the
lease. Work on the context outside goes on when another holder runs, and a call there
for the same key waits for itself until MaxWait is over.`, never, checkOuterCtx)

func checkOuterCtx(pass *analysis.Pass, c call) {
	if !c.isGuard("Do", "DoAll", "TryDo", "Call", "Lead", "Wrap") {
		return
	}
	fn, ok := c.argument("fn").(*ast.FuncLit)
	if !ok || usesOwnContext(pass, fn) {
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
		for _, arg := range inner.Args {
			if isOuterContext(pass, fn, arg) {
				pass.ReportRangef(arg, "the function has a context of its own, which ends when the lease is lost: use that, not %s",
					types.ExprString(arg))
			}
		}
		return true
	})
}

// usesOwnContext reports whether fn uses its context parameter.
func usesOwnContext(pass *analysis.Pass, fn *ast.FuncLit) bool {
	params := fn.Type.Params.List
	if len(params) == 0 || len(params[0].Names) == 0 {
		return false
	}
	own := pass.TypesInfo.Defs[params[0].Names[0]]
	used := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		used = used || ok && own != nil && pass.TypesInfo.Uses[id] == own
		return !used
	})
	return used
}

// isOuterContext reports whether expr is a context from outside of fn: a variable,
// or what the Context method of an HTTP request returns.
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

// isHarmless reports whether what fn does with a context can go on without the
// lease: logging, and work that is meant to.
func isHarmless(fn *types.Func) bool {
	return fn.FullName() == "context.WithoutCancel" || fn.Pkg() != nil && fn.Pkg().Path() == "log/slog"
}
