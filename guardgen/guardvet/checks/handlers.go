package checks

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var handlers = newAnalyzer("handlers", `report locks after the handler of a gin route

gin runs the handlers of a route in the order in which they are listed. A lock that
comes last guards nothing: r.POST(path, lockmw.Key(g, "stock:{sku}"), buy).`, never, checkHandlers)

// routeMethods are the methods of gin, and of echo, that take the handlers of a
// route.
var routeMethods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "Any", "Handle", "Match"}

func checkHandlers(pass *analysis.Pass, c call) {
	if c.fn.Pkg().Path() != module+"/middleware/gin" ||
		!slices.Contains(lockMakers, c.fn.Name()) {
		return
	}
	route, ok := c.cur.Parent().Node().(*ast.CallExpr)
	if !ok || route.Ellipsis.IsValid() || route.Args[len(route.Args)-1] != ast.Expr(c.CallExpr) {
		return
	}
	fn, ok := typeutil.Callee(pass.TypesInfo, route).(*types.Func)
	if ok && fn.Pkg() != nil && fn.Pkg().Path() == "github.com/gin-gonic/gin" &&
		slices.Contains(routeMethods, fn.Name()) {
		pass.ReportRangef(c, "no handler comes after this lock, so it guards nothing: list it before the handler")
	}
}
