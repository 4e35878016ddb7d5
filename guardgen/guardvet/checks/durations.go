package checks

import (
	"go/ast"
	"go/constant"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

var durations = newAnalyzer("durations", `report bare numbers that are durations

guard.WithMaxWait(3) is three nanoseconds. Write 3*time.Second.`, never, checkDurations)

func checkDurations(pass *analysis.Pass, c call) {
	for param, arg := range c.arguments() {
		if !isDuration(param.Type()) {
			continue
		}
		n := pass.TypesInfo.Types[arg].Value
		if n == nil || constant.Sign(n) == 0 || hasUnit(pass, arg) {
			continue
		}
		pass.ReportRangef(arg,
			"%s in %s is in nanoseconds: give it a unit, such as time.Second", types.ExprString(arg), c.fn.Name())
	}
}

// hasUnit reports whether anything in expr is a time.Duration by itself.
func hasUnit(pass *analysis.Pass, expr ast.Expr) bool {
	found := false
	ast.Inspect(expr, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && pass.TypesInfo.Uses[id] != nil {
			found = found || isDuration(pass.TypesInfo.Uses[id].Type())
		}
		return !found
	})
	return found
}

func isDuration(t types.Type) bool { return isNamed(t, "time", "Duration") }
