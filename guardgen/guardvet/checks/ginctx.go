package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

var ginCtx = &analysis.Analyzer{
	Name: "ginctx",
	Doc: `report gin.Contexts that are passed as contexts

A gin.Context never ends, unless its engine has ContextWithFallback: a call that waits
on it waits on when the client has gone, and work on it goes on when the lease is lost.
Pass c.Request.Context(). In packages that use the gin adapter, every call is looked at;
elsewhere those of guard. A package that sets ContextWithFallback is left out.`,
	URL:      url,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runGinCtx,
}

func runGinCtx(pass *analysis.Pass) (any, error) {
	if setsFallback(pass) {
		return nil, nil
	}
	adapter := false
	for _, p := range pass.Pkg.Imports() {
		adapter = adapter || p.Path() == module+"/middleware/gin"
	}
	for cur, test := range callExprs(pass) {
		expr := cur.Node().(*ast.CallExpr)
		fn, ok := typeutil.Callee(pass.TypesInfo, expr).(*types.Func)
		if !ok || test || isHarmless(fn) {
			continue
		}
		c, ours := newCall(pass.TypesInfo, cur)
		if ours && !c.isVerb() || !ours && !adapter {
			continue // LeaseFrom and FencingToken look into c
		}
		reportGinCtx(pass, call{expr, cur, fn, fn.Signature()})
	}
	return nil, nil
}

func reportGinCtx(pass *analysis.Pass, c call) {
	for param, arg := range c.arguments() {
		if isContext(param.Type()) && isGinContext(pass.TypesInfo.TypeOf(arg)) {
			text := types.ExprString(arg)
			pass.ReportRangef(arg, "%s does not end when the request or its lease does: pass "+
				"%s.Request.Context()", text, text)
		}
	}
}

// setsFallback reports whether the package names gin's ContextWithFallback.
func setsFallback(pass *analysis.Pass) bool {
	for _, obj := range pass.TypesInfo.Uses {
		v, ok := obj.(*types.Var)
		if ok && v.IsField() && v.Name() == "ContextWithFallback" {
			return true
		}
	}
	return false
}
