package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

var dropped = newAnalyzer("dropped", `report results of guard that nobody looks at

g.With(...) changes nothing: it returns a copy. g.Do(...) may not have run its function,
and says so in its error. To drop an error on purpose, assign it to _.`, call.isVerb, checkDropped)

func checkDropped(pass *analysis.Pass, c call) {
	if !c.isMiddleware() && c.fn.Pkg().Path() != module {
		return // guardtest.Guard.Hold
	}
	switch c.cur.Parent().Node().(type) {
	case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
	default:
		return
	}
	switch c.fn.Name() {
	case "Release", "Close":
		return // what they return is logged as well
	}
	if what := lostIn(c.sig.Results()); what != "" {
		pass.ReportRangef(c, "%s returns %s, which is dropped", c.fn.Name(), what)
	}
}

// lostIn names the value that is lost if results are ignored, or returns "".
func lostIn(results *types.Tuple) string {
	for i := results.Len() - 1; i >= 0; i-- {
		switch t := results.At(i).Type(); {
		case types.Identical(t, types.Universe.Lookup("error").Type()):
			return "an error"
		case !types.Identical(t, types.Typ[types.Bool]):
			return types.TypeString(t, (*types.Package).Name)
		}
	}
	return ""
}
