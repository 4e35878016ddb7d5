package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
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
				checkKeyFunc(pass, resolve(pass, c.cur, arg))
			} else {
				checkKey(pass, c.cur, arg)
			}
		case "keys":
			if list, ok := resolve(pass, c.cur, arg).(*ast.CompositeLit); ok {
				for _, key := range list.Elts {
					checkKey(pass, c.cur, key)
				}
			}
		}
	}
}

// checkKey is [checkRawKey] also for the results of a function of this package
// that makes the key.
func checkKey(pass *analysis.Pass, cur inspector.Cursor, key ast.Expr) {
	if maker, ok := resolve(pass, cur, key).(*ast.CallExpr); ok {
		checkKeyFunc(pass, maker.Fun)
	}
	checkRawKey(pass, cur, key)
}

// checkRawKey reports key if it is concatenated, or a constant with an empty
// part.
func checkRawKey(pass *analysis.Pass, cur inspector.Cursor, key ast.Expr) {
	if text, ok := constantText(pass, key); ok {
		if text != "" && slices.Contains(strings.Split(text, ":"), "") {
			pass.ReportRangef(key, "key %q has an empty part: was a value to be added? Write guard.Key(%q, value)",
				text, strings.Trim(text, ":"))
		}
		return
	}
	if j := joinedOf(pass, resolve(pass, cur, key)); j != nil {
		pass.ReportRangef(key,
			"the key is made by %s: make it by guard.Key, which escapes its parts and refuses empty ones", j.by)
	}
}

// checkKeyFunc is [checkRawKey] for the results of a function, if it is a literal
// or declared in this package.
func checkKeyFunc(pass *analysis.Pass, fn ast.Expr) {
	cur, ok := functionAt(pass, fn)
	if !ok {
		return
	}
	for ret := range cur.Preorder((*ast.ReturnStmt)(nil)) {
		results := ret.Node().(*ast.ReturnStmt).Results
		if functionOf(ret) != cur || len(results) == 0 {
			continue
		}
		if text, ok := constantText(pass, results[0]); !ok || text != "" {
			checkRawKey(pass, ret, results[0])
		}
	}
}

// checkPart reports a part of guard.Key that consists of several parts.
func checkPart(pass *analysis.Pass, c call, part ast.Expr, first bool) {
	if text, ok := constantText(pass, part); ok {
		if first && strings.Contains(text, ":") {
			pass.ReportRangef(part, "the ':' in %q is escaped: pass the parts to guard.Key one by one", text)
		}
		return
	}
	j := joinedOf(pass, resolve(pass, c.cur, part))
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
