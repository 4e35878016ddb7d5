package checks

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var rawKeys = newAnalyzer("rawkeys", `report keys that are concatenated, or that have an empty part

A key such as "stock:"+sku is not the key that a route makes of "stock:{sku}" if sku
has a ':' or '%' in it, and one lock for everybody if sku is empty. guard.Key("stock",
sku) is the same key everywhere. A concatenation within one part of guard.Key is
reported if it joins several values, or has a ':' in it; so is a constant first part
with a ':'.`, call.isGuardtest, checkRawKeys)

func checkRawKeys(pass *analysis.Pass, c call) {
	if c.isKey() {
		for i, part := range c.Args {
			checkPart(pass, c, part, i == 0)
		}
		return
	}
	if !c.takesKeys() {
		return
	}
	for param, arg := range c.arguments() {
		switch param.Name() {
		case "key":
			if _, ok := param.Type().Underlying().(*types.Signature); ok {
				checkKeyFunc(pass, c, arg)
			} else {
				checkRawKey(pass, c, arg)
			}
		case "keys":
			if list, ok := resolve(pass, c, arg).(*ast.CompositeLit); ok {
				for _, key := range list.Elts {
					checkRawKey(pass, c, key)
				}
			}
		}
	}
}

// checkRawKey reports key if it is concatenated, or a constant with an empty
// part.
func checkRawKey(pass *analysis.Pass, c call, key ast.Expr) {
	if text, ok := constantText(pass, key); ok {
		if text != "" && slices.Contains(strings.Split(text, ":"), "") {
			pass.ReportRangef(key, "key %q has an empty part: was a value to be added? Write guard.Key(%q, value)",
				text, strings.Trim(text, ":"))
		}
		return
	}
	if j := joinedOf(pass, resolve(pass, c, key)); j != nil {
		pass.ReportRangef(key,
			"the key is made by %s: make it by guard.Key, which escapes its parts and refuses empty ones", j.by)
	}
}

// checkKeyFunc is [checkRawKey] for the results of a function.
func checkKeyFunc(pass *analysis.Pass, c call, fn ast.Expr) {
	body := bodyOf(pass, resolve(pass, c, fn))
	if body == nil {
		return
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				return true
			}
			if text, ok := constantText(pass, n.Results[0]); !ok || text != "" {
				checkRawKey(pass, c, n.Results[0])
			}
		}
		return true
	})
}

// bodyOf returns the body of fn, if it is a literal or declared in this
// package.
func bodyOf(pass *analysis.Pass, fn ast.Expr) *ast.BlockStmt {
	switch fn := fn.(type) {
	case *ast.FuncLit:
		return fn.Body
	case *ast.Ident:
		for _, file := range pass.Files {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if ok && pass.TypesInfo.Defs[f.Name] == pass.TypesInfo.Uses[fn] {
					return f.Body
				}
			}
		}
	}
	return nil
}

// checkPart reports a part of guard.Key that consists of several parts.
func checkPart(pass *analysis.Pass, c call, part ast.Expr, first bool) {
	if text, ok := constantText(pass, part); ok {
		if first && strings.Contains(text, ":") {
			pass.ReportRangef(part, "the ':' in %q is escaped: pass the parts to guard.Key one by one", text)
		}
		return
	}
	j := joinedOf(pass, resolve(pass, c, part))
	switch {
	case j == nil:
	case strings.Contains(j.text, ":"):
		pass.ReportRangef(part,
			"%s makes one part of the key, and its ':' is escaped: pass the parts to guard.Key one by one", j.by)
	case j.values > 1:
		pass.ReportRangef(part, "%s joins several values, so that different ones may give the same key: "+
			"pass them to guard.Key one by one", j.by)
	}
}

// joined is a text that is joined from others.
type joined struct {
	by     string // concatenation, or the name of the function
	text   string // the constant texts in it
	values int    // the number of other parts
}

// joinedOf returns the parts that expr joins, or nil.
func joinedOf(pass *analysis.Pass, expr ast.Expr) *joined {
	switch expr := expr.(type) {
	case *ast.BinaryExpr:
		if isConcatenation(pass, expr) {
			j := &joined{by: "concatenation"}
			j.add(pass, expr)
			return j
		}
	case *ast.CallExpr:
		fn, ok := typeutil.Callee(pass.TypesInfo, expr).(*types.Func)
		if !ok || len(expr.Args) == 0 {
			return nil
		}
		switch fn.FullName() {
		case "fmt.Sprintf", "fmt.Sprint", "fmt.Sprintln":
			j := &joined{by: fn.FullName()}
			for _, arg := range expr.Args {
				j.add(pass, arg)
			}
			return j
		case "strings.Join":
			return &joined{by: fn.FullName(), values: 2}
		}
	}
	return nil
}

// isConcatenation reports whether expr joins texts. A sum of numbers is one
// value.
func isConcatenation(pass *analysis.Pass, expr *ast.BinaryExpr) bool {
	basic, ok := pass.TypesInfo.TypeOf(expr).Underlying().(*types.Basic)
	return ok && expr.Op == token.ADD && basic.Info()&types.IsString != 0
}

func (j *joined) add(pass *analysis.Pass, expr ast.Expr) {
	expr = ast.Unparen(expr)
	if text, ok := constantText(pass, expr); ok {
		j.text += text
		return
	}
	if sum, ok := expr.(*ast.BinaryExpr); ok && isConcatenation(pass, sum) {
		j.add(pass, sum.X)
		j.add(pass, sum.Y)
		return
	}
	j.values++
}

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
// function around c.
func resolve(pass *analysis.Pass, c call, expr ast.Expr) ast.Expr {
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
	for fn := range c.cur.Enclosing((*ast.FuncDecl)(nil)) {
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
