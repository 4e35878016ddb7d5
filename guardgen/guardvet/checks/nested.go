package checks

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var nested = newAnalyzer("nested", `report keys of one kind inside each other

A transfer that takes account a and in it account b waits for one that takes b and in
it a, until both give up. g.DoAll takes them in one order. A function that compares or
sorts anything is left out: it may have put the keys in order itself.`, never, checkNested)

func checkNested(pass *analysis.Pass, c call) {
	outer := keyOf(pass, c)
	fn, ok := c.argument("fn").(*ast.FuncLit)
	if !ok || outer == nil || putsInOrder(pass, c) {
		return
	}
	for cur := range c.cur.Preorder((*ast.CallExpr)(nil)) {
		inner, ok := newCall(pass.TypesInfo, cur)
		if !ok || inner.CallExpr == c.CallExpr || inner.Pos() < fn.Pos() || fn.End() < inner.End() {
			continue
		}
		if key := keyOf(pass, inner); key != nil && sameKind(pass, outer, key) {
			pass.ReportRangef(inner, "%s and %s may be taken in the other order elsewhere, and then both "+
				"wait in vain: "+
				"take them by one DoAll", types.ExprString(outer), types.ExprString(key))
		}
	}
}

// keyOf returns the call of guard.Key that makes the key of a verb, or nil.
func keyOf(pass *analysis.Pass, c call) *ast.CallExpr {
	if !c.isGuard("Do", "Call") {
		return nil
	}
	key := c.argument("key")
	if key == nil {
		return nil
	}
	expr, ok := resolve(pass, c, key).(*ast.CallExpr)
	if !ok {
		return nil
	}
	if fn, ok := typeutil.Callee(pass.TypesInfo, expr).(*types.Func); !ok || fn.FullName() != module+".Key" {
		return nil
	}
	return expr
}

// sameKind reports whether a and b begin with the same constant and then differ
// in one value of the same type. An example is guard.Key("account", from) and
// guard.Key("account", to).
func sameKind(pass *analysis.Pass, a, b *ast.CallExpr) bool {
	if len(a.Args) != 2 || len(b.Args) != 2 || a.Ellipsis.IsValid() || b.Ellipsis.IsValid() {
		return false
	}
	kind, ok := constantText(pass, a.Args[0])
	other, too := constantText(pass, b.Args[0])
	x, y := pass.TypesInfo.Types[a.Args[1]], pass.TypesInfo.Types[b.Args[1]]
	return ok && too && kind == other && x.Value == nil && y.Value == nil && types.Identical(x.Type, y.Type) &&
		types.ExprString(a.Args[1]) != types.ExprString(b.Args[1])
}

// putsInOrder reports whether anything in the function around c compares by
// size, or may sort.
func putsInOrder(pass *analysis.Pass, c call) bool {
	found := false
	for outermost := range c.cur.Enclosing((*ast.FuncDecl)(nil)) {
		ast.Inspect(outermost.Node(), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				found = found || n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ
			case *ast.CallExpr:
				_, builtin := typeutil.Callee(pass.TypesInfo, n).(*types.Builtin)
				found = found || builtin && (types.ExprString(n.Fun) == "min" || types.ExprString(n.Fun) == "max")
				fn, ok := typeutil.Callee(pass.TypesInfo, n).(*types.Func)
				found = found || ok && fn.Pkg() != nil && (fn.Pkg().Path() == "sort" || fn.Pkg().Path() == "slices" ||
					fn.Pkg().Path() == "cmp" || fn.Pkg().Path() == "strings" && fn.Name() == "Compare")
			}
			return !found
		})
	}
	return found
}
