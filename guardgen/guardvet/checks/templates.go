package checks

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var templates = newAnalyzer("templates", `report templates without a placeholder, or with one that the route does not have

lockmw.Key(g, "stock:sku") is one lock for all requests. A placeholder stands in
braces: "stock:{sku}". lockmw.Static is for one lock that is meant. A placeholder
that is no parameter of the route answers each request with 500.`, never, checkTemplates)

func checkTemplates(pass *analysis.Pass, c call) {
	if !c.isMiddleware() {
		return
	}
	for param, arg := range c.arguments() {
		if param.Name() != "template" && param.Name() != "templates" {
			continue
		}
		text, ok := constantText(pass, arg)
		if ok && text != "" && !strings.ContainsAny(text, "{}") {
			pass.ReportRangef(arg,
				"template %q has no {placeholder}: write one, or lockmw.Static for one lock that all "+
					"requests share", text)
		}
		if path := routeOf(pass, c); ok && path != "" {
			for _, name := range bareNames.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(parametersOf(path), name[1]) {
					pass.ReportRangef(arg, "the route %q has no parameter %q: each request is answered with 500",
						path, name[1])
				}
			}
		}
	}
}

// bareNames are the placeholders for parameters of the path.
var bareNames = regexp.MustCompile(`\{(\w+)(?:\|[^}]*)?\}`)

// routeOf returns the path of the route that lists c among its handlers, or "".
// It must be one of gin's Engine or echo's Echo: that of a group has a prefix,
// which may have parameters too.
func routeOf(pass *analysis.Pass, c call) string {
	route, ok := c.cur.Parent().Node().(*ast.CallExpr)
	if !ok || !slices.Contains(route.Args, ast.Expr(c.CallExpr)) {
		return ""
	}
	method, ok := ast.Unparen(route.Fun).(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Add" && !slices.Contains(routeMethods, method.Sel.Name) {
		return ""
	}
	router := pass.TypesInfo.TypeOf(method.X)
	if !isNamed(router, "github.com/gin-gonic/gin", "Engine") && !isNamed(router, "github.com/labstack/echo", "Echo") {
		return ""
	}
	for _, arg := range route.Args {
		if path, ok := constantText(pass, arg); ok && strings.HasPrefix(path, "/") {
			return path
		}
	}
	return ""
}

// parametersOf returns the names of the parameters in a path of gin or echo.
func parametersOf(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if at := strings.IndexAny(part, ":*"); at >= 0 {
			names = append(names, part[at+1:])
		}
	}
	return names
}
