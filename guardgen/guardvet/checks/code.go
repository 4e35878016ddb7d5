package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// What the checks know of code, whatever it does with a guard.

// constantText returns the text of expr if it is a constant.
func constantText(pass *analysis.Pass, expr ast.Expr) (string, bool) {
	v := pass.TypesInfo.Types[expr].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

// resolve returns the expression that gives a local variable its only value. It
// returns other expressions unchanged. The variable must be declared in the
// function around cur.
func resolve(pass *analysis.Pass, cur inspector.Cursor, expr ast.Expr) ast.Expr {
	expr = ast.Unparen(expr)
	id, ok := expr.(*ast.Ident)
	if !ok {
		return expr
	}
	v, ok := pass.TypesInfo.Uses[id].(*types.Var)
	if !ok {
		return expr
	}
	var values []ast.Expr
	for fn := range cur.Enclosing((*ast.FuncDecl)(nil)) {
		values = valuesOf(pass, fn.Node(), v)
	}
	if len(values) != 1 || values[0] == nil {
		return expr
	}
	return ast.Unparen(values[0])
}

// valuesOf returns the expressions that are assigned to v in fn. An expression
// that cannot be told is nil.
func valuesOf(pass *analysis.Pass, fn ast.Node, v *types.Var) (values []ast.Expr) {
	is := func(e ast.Expr) bool {
		id, ok := ast.Unparen(e).(*ast.Ident)
		return ok && pass.TypesInfo.ObjectOf(id) == v
	}
	assign := func(i int, rhs []ast.Expr, plain bool) {
		if i < len(rhs) && plain {
			values = append(values, rhs[i])
		} else {
			values = append(values, nil)
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if is(lhs) {
					assign(i, n.Rhs, len(n.Lhs) == len(n.Rhs) && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE))
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if is(name) && len(n.Values) > 0 {
					assign(i, n.Values, len(n.Names) == len(n.Values))
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && is(n.X) {
				assign(0, nil, false)
			}
		}
		return true
	})
	return values
}

// functionAt returns the literal fn, or the declaration of the function or
// method fn if it is in this package.
func functionAt(pass *analysis.Pass, fn ast.Expr) (inspector.Cursor, bool) {
	root := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()
	var name *ast.Ident
	switch fn := ast.Unparen(fn).(type) {
	case *ast.FuncLit:
		return root.FindNode(fn)
	case *ast.Ident:
		name = fn
	case *ast.SelectorExpr:
		name = fn.Sel
	}
	obj, ok := pass.TypesInfo.Uses[name].(*types.Func)
	if !ok || obj.Pkg() != pass.Pkg {
		return inspector.Cursor{}, false
	}
	for decl := range root.Preorder((*ast.FuncDecl)(nil)) {
		if pass.TypesInfo.Defs[decl.Node().(*ast.FuncDecl).Name] == obj.Origin() {
			return decl, true
		}
	}
	return inspector.Cursor{}, false
}

// objectOf returns what a name stands for, or nil if expr is none.
func objectOf(pass *analysis.Pass, expr ast.Expr) types.Object {
	if id, ok := ast.Unparen(expr).(*ast.Ident); ok {
		return pass.TypesInfo.ObjectOf(id)
	}
	return nil
}

// comparedWithNil returns the operator of err == nil or err != nil.
func comparedWithNil(pass *analysis.Pass, cond ast.Expr, err types.Object) token.Token {
	if b, ok := cond.(*ast.BinaryExpr); ok && objectOf(pass, b.X) == err && pass.TypesInfo.Types[b.Y].IsNil() {
		return b.Op
	}
	return token.ILLEGAL
}

// endsFlow reports whether nothing behind a list of statements runs after them.
// A break or continue counts only if branches is set.
func endsFlow(list []ast.Stmt, branches bool) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return branches
	case *ast.ExprStmt:
		c, ok := last.X.(*ast.CallExpr)
		return ok && slices.Contains([]string{"panic", "os.Exit", "log.Fatal", "log.Fatalf"}, types.ExprString(c.Fun))
	}
	return false
}

// functionOf returns the innermost function around cur, or the root.
func functionOf(cur inspector.Cursor) inspector.Cursor {
	return innermost(cur, (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil))
}

// innermost returns the innermost node of some types around cur, or the root.
func innermost(cur inspector.Cursor, types ...ast.Node) inspector.Cursor {
	for found := range cur.Enclosing(types...) {
		return found
	}
	return cur.Inspector().Root()
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
