package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

var unreleased = newAnalyzer("unreleased", `report leases that are acquired and never released

A lease that nobody releases is renewed until MaxHold. Defer its Release behind the
check of the error, or use Do, which releases by itself.`, never, checkUnreleased)

func checkUnreleased(pass *analysis.Pass, c call) {
	if !c.isGuard("Acquire", "TryAcquire") {
		return
	}
	assign, ok := c.cur.Parent().Node().(*ast.AssignStmt)
	if !ok {
		return
	}
	id, ok := assign.Lhs[0].(*ast.Ident)
	if !ok {
		return
	}
	lease := pass.TypesInfo.ObjectOf(id)
	if id.Name == "_" || lease != nil && lease.Parent() != pass.Pkg.Scope() && !leaves(pass, c.cur, lease) {
		pass.ReportRangef(c, "the lease is never released: defer its Release, or use Do")
	}
}

// getters are the methods of a lease that do not end it.
var getters = []string{"Context", "Key", "Deadline", "Err", "FencingToken"}

// leaves reports whether lease is released in the function around cur, or
// handed to code that may release it.
func leaves(pass *analysis.Pass, cur inspector.Cursor, lease types.Object) bool {
	var outermost inspector.Cursor
	for fn := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		outermost = fn
	}
	for use := range outermost.Preorder((*ast.Ident)(nil)) {
		id := use.Node().(*ast.Ident)
		if pass.TypesInfo.ObjectOf(id) != lease {
			continue
		}
		switch parent := use.Parent().Node().(type) {
		case *ast.SelectorExpr:
			if !slices.Contains(getters, parent.Sel.Name) {
				return true
			}
		case *ast.BinaryExpr:
			if parent.Op != token.EQL && parent.Op != token.NEQ {
				return true
			}
		case *ast.AssignStmt:
			if isValueOf(parent, id) {
				return true
			}
		case *ast.CallExpr:
			if !isPrinted(pass, parent, id) {
				return true
			}
		case *ast.ValueSpec: // var lease *guard.Lease
		case *ast.Field:
			return true // a named result
		default:
			return true
		}
	}
	return false
}

// isPrinted reports whether id is an argument of a call that only writes it.
func isPrinted(pass *analysis.Pass, c *ast.CallExpr, id *ast.Ident) bool {
	fn, ok := typeutil.Callee(pass.TypesInfo, c).(*types.Func)
	if !ok || fn.Pkg() == nil || c.Fun == ast.Expr(id) {
		return false
	}
	return slices.Contains([]string{"fmt", "log", "log/slog"}, fn.Pkg().Path())
}

// isValueOf reports whether assign keeps id, other than in _.
func isValueOf(assign *ast.AssignStmt, id *ast.Ident) bool {
	for i, value := range assign.Rhs {
		if value != id {
			continue
		}
		to, ok := assign.Lhs[i].(*ast.Ident)
		return !ok || to.Name != "_"
	}
	return false
}
