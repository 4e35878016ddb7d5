package checks

import (
	"strings"

	"golang.org/x/tools/go/analysis"
)

var templates = newAnalyzer("templates", `report templates of routes that have no placeholder

lockmw.Key(g, "stock:sku") is one lock for all requests. A placeholder stands in
braces: "stock:{sku}". lockmw.Static is for one lock that is meant.`, never, checkTemplates)

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
	}
}
