package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

var goroutines = newAnalyzer("goroutines", `report goroutines under a lease that nobody waits for

The context of a guarded function ends when the function returns, and its key is free
then. So it is with the request's context in the handler of a route with a lock. A
goroutine on it must have ended before: wait for it, or give it a context of its own if
it may run beside the next holder.`, never, checkGoroutines)

func checkGoroutines(pass *analysis.Pass, c call) {
	for handler := range lockedHandlers(pass, c) {
		reportGoroutines(pass, handler, "handler", func(cur inspector.Cursor) bool { return usesRequest(pass, cur) })
	}
	s, ok := sectionOf(pass, c)
	if !ok || s.lease != nil {
		return
	}
	own := ownContext(pass, s.cur.Node().(*ast.FuncLit))
	reportGoroutines(pass, s.cur, "function", func(cur inspector.Cursor) bool { return uses(pass, cur.Node(), own) })
}

// reportGoroutines reports the goroutines of fn that use what ends with it,
// unless fn may wait for them.
func reportGoroutines(pass *analysis.Pass, fn inspector.Cursor, what string, uses func(inspector.Cursor) bool) {
	if mayWait(pass, fn.Node()) {
		return
	}
	for cur := range fn.Preorder((*ast.GoStmt)(nil)) {
		if uses(cur) {
			pass.ReportRangef(cur.Node(), "nobody waits for this goroutine: its context ends, and the key is free, "+
				"when the %s returns", what)
		}
	}
}

// lockedHandlers iterates over the handlers of a route, if c makes its lock:
// functions of this package that follow it in the list, or that it wraps. echo
// has the handler before.
func lockedHandlers(pass *analysis.Pass, c call) iter.Seq[inspector.Cursor] {
	return func(yield func(inspector.Cursor) bool) {
		route, ok := c.cur.Parent().Node().(*ast.CallExpr)
		if !ok || !c.isMiddleware() {
			return
		}
		echo := strings.HasPrefix(c.fn.Pkg().Path(), module+"/middleware/echo")
		for _, arg := range route.Args {
			if arg == c.CallExpr || arg.Pos() < c.Pos() && !echo {
				continue
			}
			if wrap, ok := arg.(*ast.CallExpr); ok && pass.TypesInfo.Types[wrap.Fun].IsType() {
				arg = wrap.Args[0] // http.HandlerFunc(buy)
			}
			if fn, ok := functionAt(pass, arg); ok && isHandler(pass, fn.Node()) && !yield(fn) {
				return
			}
		}
	}
}

// usesRequest reports whether a goroutine works on the context of a request.
func usesRequest(pass *analysis.Pass, goroutine inspector.Cursor) bool {
	for cur := range goroutine.Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		c, ok := resolve(pass, cur, cur.Node().(ast.Expr)).(*ast.CallExpr)
		if !ok {
			continue
		}
		fn, ok := typeutil.Callee(pass.TypesInfo, c).(*types.Func)
		if !ok || fn.FullName() != "(*net/http.Request).Context" {
			continue
		}
		if around, ok := innermost(cur.Parent(), (*ast.CallExpr)(nil)).Node().(*ast.CallExpr); ok {
			if by, ok := typeutil.Callee(pass.TypesInfo, around).(*types.Func); ok && isHarmless(by) {
				continue
			}
		}
		return true
	}
	return false
}

// mayWait reports whether fn has anything that may wait for a goroutine.
func mayWait(pass *analysis.Pass, fn ast.Node) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt, *ast.SendStmt:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		case *ast.RangeStmt:
			_, channel := pass.TypesInfo.TypeOf(n.X).Underlying().(*types.Chan)
			found = found || channel
		case *ast.SelectorExpr: // of a group, a pool or the like
			name := strings.ToLower(n.Sel.Name)
			found = found || strings.Contains(name, "wait") || strings.Contains(name, "join") ||
				strings.Contains(name, "lock")
		}
		return !found
	})
	return found
}

// ownContext returns the context parameter of fn, or nil if it has no name.
func ownContext(pass *analysis.Pass, fn *ast.FuncLit) types.Object {
	params := fn.Type.Params.List
	if len(params) == 0 || len(params[0].Names) == 0 {
		return nil
	}
	return pass.TypesInfo.Defs[params[0].Names[0]]
}
