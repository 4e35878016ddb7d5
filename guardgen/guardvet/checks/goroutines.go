package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var goroutines = newAnalyzer("goroutines", `report goroutines under a lease that nobody waits for

The context of a guarded function ends when the function returns, and its key is free
then. A goroutine on it must have ended before: wait for it, or give it a context of
its own if it may run beside the next holder.`, never, checkGoroutines)

func checkGoroutines(pass *analysis.Pass, c call) {
	if !c.isGuard("Do", "DoAll", "TryDo", "Call", "Lead", "Wrap") {
		return
	}
	fn, ok := c.argument("fn").(*ast.FuncLit)
	if !ok || mayWait(pass, fn) {
		return
	}
	own := ownContext(pass, fn)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok && uses(pass, g, own) {
			pass.ReportRangef(g, "nobody waits for this goroutine: its context ends, and the key is free, when the "+
				"function returns")
			return false
		}
		return true
	})
}

// mayWait reports whether fn has anything that may wait for a goroutine.
func mayWait(pass *analysis.Pass, fn *ast.FuncLit) bool {
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
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

// uses reports whether obj is used in n.
func uses(pass *analysis.Pass, n ast.Node, obj types.Object) bool {
	used := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		used = used || ok && obj != nil && pass.TypesInfo.Uses[id] == obj
		return !used
	})
	return used
}
