package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

var nested = &analysis.Analyzer{
	Name: "nested",
	Doc: `report keys inside each other in no order

A transfer that takes account a and in it account b waits for one that takes b and in
it a, until both give up. So does a function that takes an order and in it its stock,
and one that takes the stock and in it the order. g.DoAll takes keys in one order. A
function that compares or sorts anything is left out: it may have put the keys in order
itself. So is what runs under one more lease, which may keep the two apart.`,
	URL:      url,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runNested,
}

// A nesting is a verb that waits for its key under the lease of another one.
type nesting struct {
	outer, inner   call
	outside, inkey ast.Expr // the two keys
}

func runNested(pass *analysis.Pass) (any, error) {
	once := reportOnce(pass)
	var all []nesting
	under := make(map[*ast.CallExpr]bool) // verbs under a lease
	for cur, test := range callExprs(pass) {
		outer, ok := newCall(pass.TypesInfo, cur)
		if !ok || test || !outer.isVerb() {
			continue
		}
		s, ok := sectionOf(pass, outer)
		if !ok {
			continue
		}
		for cur := range s.calls(pass) {
			inner, ok := newCall(pass.TypesInfo, cur)
			if !ok || !inner.isVerb() {
				continue
			}
			under[inner.CallExpr] = true
			n := nesting{outer, inner, keyOf(pass, outer), keyOf(pass, inner)}
			waits := !inner.isGuard("TryDo", "TryAcquire")
			if n.outside != nil && n.inkey != nil && waits && !putsInOrder(pass, outer) {
				all = append(all, n)
			}
		}
	}
	for _, n := range all {
		if sameKind(pass, n.outside, n.inkey) {
			once.ReportRangef(n.inner, "%s and %s may be taken in the other order elsewhere, and then both "+
				"wait in vain: take them by one DoAll", types.ExprString(n.outside), types.ExprString(n.inkey))
		}
	}
	alone := slices.DeleteFunc(all, func(n nesting) bool { return under[n.outer.CallExpr] })
	for _, n := range alone {
		reportOpposite(once, n, alone)
	}
	return nil, nil
}

// reportOpposite reports n if one of others takes its keys in the opposite order.
func reportOpposite(pass *analysis.Pass, n nesting, others []nesting) {
	outer, inner := kindOf(pass, n.outside), kindOf(pass, n.inkey)
	if outer == "" || inner == "" || outer == inner {
		return
	}
	for _, o := range others {
		if kindOf(pass, o.outside) == inner && kindOf(pass, o.inkey) == outer {
			at := pass.Fset.Position(o.inner.Pos())
			pass.ReportRangef(n.inner, "%s is taken under %s here, and the other way round at %s:%d, so both may "+
				"wait in vain: take them by one DoAll", inner, outer, filepath.Base(at.Filename), at.Line)
			return
		}
	}
}

// keyOf returns what makes the key of a verb, or nil.
func keyOf(pass *analysis.Pass, c call) ast.Expr {
	key := c.argument("key")
	if key == nil {
		return nil
	}
	return resolve(pass, c.cur, key)
}

// partsOf returns the parts of a call of guard.Key, or nil.
func partsOf(pass *analysis.Pass, key ast.Expr) []ast.Expr {
	c, ok := key.(*ast.CallExpr)
	if !ok || c.Ellipsis.IsValid() {
		return nil
	}
	if fn, ok := typeutil.Callee(pass.TypesInfo, c).(*types.Func); !ok || fn.FullName() != module+".Key" {
		return nil
	}
	return c.Args
}

// kindOf returns a key with * for each part that is not constant, or "" if its
// first part is not.
func kindOf(pass *analysis.Pass, key ast.Expr) string {
	if text, ok := constantText(pass, key); ok {
		return text
	}
	var kind []string
	for i, part := range partsOf(pass, key) {
		text, ok := constantText(pass, part)
		if !ok && i == 0 {
			return ""
		}
		if !ok {
			text = "*"
		}
		kind = append(kind, text)
	}
	return strings.Join(kind, ":")
}

// sameKind reports whether two keys begin with the same constant and then differ
// in one value of the same type. An example is guard.Key("account", from) and
// guard.Key("account", to).
func sameKind(pass *analysis.Pass, outer, inner ast.Expr) bool {
	a, b := partsOf(pass, outer), partsOf(pass, inner)
	if len(a) != 2 || len(b) != 2 {
		return false
	}
	kind, ok := constantText(pass, a[0])
	other, too := constantText(pass, b[0])
	x, y := pass.TypesInfo.Types[a[1]], pass.TypesInfo.Types[b[1]]
	return ok && too && kind == other && x.Value == nil && y.Value == nil && types.Identical(x.Type, y.Type) &&
		types.ExprString(a[1]) != types.ExprString(b[1])
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
