package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// A section is code that surely runs under a lease. It is the function literal
// of a verb, or what follows the check of Acquire's error.
type section struct {
	cur   inspector.Cursor // the literal, or the block of the call
	under span             // the part of cur that runs under the lease, but for free
	free  []span           // here the lease may have been released or handed on
	lease types.Object     // nil in the function of a verb
}

type span struct{ from, to token.Pos }

func (s span) has(pos token.Pos) bool { return s.from <= pos && pos < s.to }

// sectionOf returns the section of a verb, if it can be told.
func sectionOf(pass *analysis.Pass, c call) (section, bool) {
	if c.isGuard("Acquire", "TryAcquire") {
		return heldSection(pass, c)
	}
	fn, ok := c.argument("fn").(*ast.FuncLit)
	if !ok || c.fn.Pkg().Path() != module {
		return section{}, false
	}
	cur, ok := c.cur.FindNode(fn)
	return section{cur: cur, under: span{fn.Pos(), fn.End()}}, ok
}

// heldSection returns the section of Acquire. That is the rest of its block,
// behind a check that leaves the block if err != nil, or the body of a check for
// err == nil.
func heldSection(pass *analysis.Pass, c call) (section, bool) {
	assign, ok := c.cur.Parent().Node().(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 2 {
		return section{}, false
	}
	s := section{lease: objectOf(pass, assign.Lhs[0])}
	err := objectOf(pass, assign.Lhs[1])
	if s.lease == nil || err == nil {
		return section{}, false
	}
	at := c.cur.Parent()
	next, more := at.NextSibling()
	if _, ok := at.Parent().Node().(*ast.IfStmt); ok { // if lease, err := g.Acquire(ctx, key); err == nil
		next, more = at.Parent(), true
	}
	for ; more; next, more = next.NextSibling() {
		check, ok := next.Node().(*ast.IfStmt)
		if !ok {
			continue
		}
		op := comparedWithNil(pass, check.Cond, err)
		if cond, ok := next.FindNode(check.Cond); ok && answers(pass, cond, err) {
			op = token.NEQ
		}
		switch {
		case op == token.EQL:
			s.cur, _ = next.FindNode(check.Body)
			s.under = span{check.Body.Pos(), check.Body.End()}
		case op == token.NEQ && check.Init != at.Node() && endsFlow(check.Body.List, true):
			s.cur = at.Parent()
			s.under = span{check.End(), s.cur.Node().End()}
		default:
			continue
		}
		s.findFree(pass)
		return s, true
	}
	return section{}, false
}

// answers reports whether a condition is that of lockmw.Abort(c, err), which
// answers the request unless err is nil.
func answers(pass *analysis.Pass, cond inspector.Cursor, err types.Object) bool {
	if _, ok := cond.Node().(*ast.CallExpr); !ok {
		return false
	}
	c, ok := newCall(pass.TypesInfo, cond)
	return ok && c.isMiddleware() && slices.Contains([]string{"Abort", "Error"}, c.fn.Name()) &&
		objectOf(pass, c.Args[len(c.Args)-1]) == err
}

// findFree finds where the lease may no longer be held: behind each use of it
// that may release it or hand it on.
func (s *section) findFree(pass *analysis.Pass) {
	for use := range s.cur.Preorder((*ast.Ident)(nil)) {
		if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] != s.lease || isLookedAt(use) {
			continue
		}
		free := span{use.Node().Pos(), token.NoPos}
		deferred := false
		for up := use.Parent(); up != s.cur; up = up.Parent() {
			switch n := up.Node().(type) {
			case *ast.DeferStmt:
				deferred = true
			case *ast.FuncLit:
				free.to = s.under.to // nobody knows when it runs
			case *ast.BlockStmt:
				if !free.to.IsValid() && endsFlow(n.List, false) {
					free.to = n.End()
				}
			}
		}
		if !free.to.IsValid() {
			free.to = s.under.to
		}
		if !deferred {
			s.free = append(s.free, free)
		}
	}
}

// isLookedAt reports whether a use of a lease only asks it or compares it.
func isLookedAt(use inspector.Cursor) bool {
	switch parent := use.Parent().Node().(type) {
	case *ast.SelectorExpr:
		return slices.Contains(getters, parent.Sel.Name)
	case *ast.BinaryExpr:
		return true
	}
	return false
}

// calls iterates over the calls that run under the lease. Those that are
// deferred or in a goroutine may run later, and so may functions in a section of
// Acquire. What is passed to harmless calls does not count.
func (s section) calls(pass *analysis.Pass) iter.Seq[inspector.Cursor] {
	return func(yield func(inspector.Cursor) bool) {
		for cur := range s.cur.Preorder((*ast.CallExpr)(nil)) {
			if s.has(pass, cur) && !yield(cur) {
				return
			}
		}
	}
}

func (s section) has(pass *analysis.Pass, cur inspector.Cursor) bool {
	pos := cur.Node().Pos()
	if !s.under.has(pos) || slices.ContainsFunc(s.free, func(free span) bool { return free.has(pos) }) {
		return false
	}
	for ; cur != s.cur; cur = cur.Parent() {
		switch n := cur.Node().(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.FuncLit:
			if s.lease != nil {
				return false
			}
		case *ast.CallExpr:
			if fn, ok := typeutil.Callee(pass.TypesInfo, n).(*types.Func); ok && isHarmless(fn) {
				return false
			}
		}
	}
	return true
}

// isOutside reports whether expr starts from a variable that is declared outside
// of s, as s.db in s.db.Exec does.
func (s section) isOutside(pass *analysis.Pass, expr ast.Expr) bool {
	for {
		switch e := ast.Unparen(expr).(type) {
		case *ast.SelectorExpr:
			expr = e.X
			if _, ok := pass.TypesInfo.Uses[e.Sel].(*types.Var); ok && pass.TypesInfo.Selections[e] == nil {
				return true // of another package
			}
		case *ast.CallExpr:
			expr = e.Fun
		case *ast.Ident:
			v, ok := pass.TypesInfo.Uses[e].(*types.Var)
			return ok && !s.under.has(v.Pos())
		default:
			return false
		}
	}
}
