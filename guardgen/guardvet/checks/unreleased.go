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
check of the error, or use Do, which releases by itself. A return before a Release
that is not deferred leaves the lease behind.`, never, checkUnreleased)

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
		return
	}
	if lease != nil && releasesItself(pass, c.cur, lease) {
		reportReturns(pass, c, lease)
	}
}

// releasesItself reports whether the function around cur releases the lease by
// plain calls of Release, and does nothing else with it but look at it.
func releasesItself(pass *analysis.Pass, cur inspector.Cursor, lease types.Object) bool {
	fn := functionOf(cur)
	for use := range fn.Preorder((*ast.Ident)(nil)) {
		if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] != lease || isLookedAt(use) {
			continue
		}
		method, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "Release" || functionOf(use) != fn {
			return false
		}
		c, ok := use.Parent().Parent().Node().(*ast.CallExpr)
		if !ok || c.Fun != ast.Expr(method) {
			return false
		}
		switch use.Parent().Parent().Parent().Node().(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		}
	}
	return true
}

// reportReturns reports the returns between Acquire and the first Release. One
// in a branch that asks whether the lease is held does not count.
func reportReturns(pass *analysis.Pass, c call, lease types.Object) {
	s, ok := heldSection(pass, c)
	if !ok {
		return
	}
	for ret := range s.cur.Preorder((*ast.ReturnStmt)(nil)) {
		held := functionOf(ret) == functionOf(c.cur) && s.has(pass, ret) && !uses(pass, ret.Node(), lease)
		for up := ret.Parent(); held && up != s.cur; up = up.Parent() {
			branch, ok := up.Node().(*ast.IfStmt)
			held = !ok || !asks(pass, up, branch, lease)
		}
		if held {
			pass.ReportRangef(ret.Node(), "this return leaves the lease behind: defer its Release, or use Do")
		}
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

// asks reports whether the condition of a branch compares the lease, or looks at
// its Err.
func asks(pass *analysis.Pass, at inspector.Cursor, branch *ast.IfStmt, lease types.Object) bool {
	for use := range at.Preorder((*ast.Ident)(nil)) {
		if use.Node().Pos() >= branch.Body.Pos() {
			break
		}
		if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] != lease {
			continue
		}
		switch parent := use.Parent().Node().(type) {
		case *ast.BinaryExpr:
			return true
		case *ast.SelectorExpr:
			if parent.Sel.Name == "Err" {
				return true
			}
		}
	}
	return false
}
