package checks

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var commits = newAnalyzer("commits", `report transactions that commit when the lease is released

The next holder must see what this one has written, so a transaction commits before the
lease is released: in the function of Do, or by a defer behind defer lease.Release, as
deferred calls run in the opposite order.`, never, checkCommits)

func checkCommits(pass *analysis.Pass, c call) {
	s, ok := sectionOf(pass, c)
	fn := functionOf(c.cur)
	if !ok || fn.Node() == nil || isGuarded(pass, fn) {
		return
	}
	released, deferred := c.End(), token.NoPos
	if s.lease != nil {
		released, deferred = releaseOf(pass, s, fn)
		if released.IsValid() {
			s.under.to = released
		}
	}
	for cur := range fn.Preorder((*ast.CallExpr)(nil)) {
		tx := committedBy(pass, cur)
		if tx == nil || s.lease == nil && s.under.has(cur.Node().Pos()) || !worksIn(pass, s, fn, tx) {
			continue
		}
		at, literal := deferOf(cur, fn)
		late := !literal && released.IsValid() && released < cur.Node().Pos()
		if at.IsValid() { // deferred calls come last, and the first one at last
			late = released.IsValid() || at < deferred
		}
		if late {
			pass.ReportRangef(cur.Node(), "%s commits after the lease is released, and the next holder may not see "+
				"its work: commit before", tx.Name())
		}
	}
}

// isGuarded reports whether fn is the function of a verb. What is acquired
// inside may be on the same key, whose release comes later.
func isGuarded(pass *analysis.Pass, fn inspector.Cursor) bool {
	if _, ok := fn.Parent().Node().(*ast.CallExpr); !ok {
		return false
	}
	c, ok := newCall(pass.TypesInfo, fn.Parent())
	return ok && ast.Node(c.argument("fn")) == fn.Node()
}

// releaseOf returns where the lease of s is released in the block that acquired
// it, and where its release is deferred.
func releaseOf(pass *analysis.Pass, s section, fn inspector.Cursor) (at, deferred token.Pos) {
	for use := range fn.Preorder((*ast.Ident)(nil)) {
		method, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "Release" || objectOf(pass, method.X) != s.lease {
			continue
		}
		if later, _ := deferOf(use, fn); later.IsValid() {
			deferred = later
			continue
		}
		if innermost(use, (*ast.BlockStmt)(nil), (*ast.CaseClause)(nil), (*ast.CommClause)(nil)) == s.cur {
			at = use.Node().Pos()
		}
	}
	return at, deferred
}

// committedBy returns the transaction that a call commits, or nil. That is a
// variable whose type has Commit and Rollback.
func committedBy(pass *analysis.Pass, cur inspector.Cursor) types.Object {
	method, ok := cur.Node().(*ast.CallExpr).Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Commit" {
		return nil
	}
	tx := objectOf(pass, method.X)
	if tx == nil || tx.Type() == nil {
		return nil
	}
	rollback, _, _ := types.LookupFieldOrMethod(tx.Type(), true, pass.Pkg, "Rollback")
	if _, ok := rollback.(*types.Func); !ok {
		return nil
	}
	return tx
}

// worksIn reports whether tx is declared outside of the code under the lease or
// in the block that acquired it, and is used under the lease.
func worksIn(pass *analysis.Pass, s section, fn inspector.Cursor, tx types.Object) bool {
	if s.lease == nil && s.under.has(tx.Pos()) {
		return false
	}
	for use := range fn.Preorder((*ast.Ident)(nil)) {
		if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] == tx && s.under.has(use.Node().Pos()) {
			if at, _ := deferOf(use, fn); !at.IsValid() {
				return true
			}
		}
	}
	return false
}

// deferOf returns where the statement that runs cur is deferred, if it is, and
// reports whether cur is in another function than fn.
func deferOf(cur, fn inspector.Cursor) (at token.Pos, literal bool) {
	for ; cur != fn; cur = cur.Parent() {
		switch n := cur.Node().(type) {
		case *ast.DeferStmt:
			at = n.Pos()
		case *ast.FuncLit:
			literal = true
		}
	}
	return at, literal
}
