package checks

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var tokens = newAnalyzer("tokens", `report guard.FencingToken under several keys

Inside DoAll each key has a token of its own, so guard.FencingToken(ctx) cannot tell
which is meant. guard.LeaseOf(ctx, key) returns the lease of one key, which has one.`, never, checkTokens)

func checkTokens(pass *analysis.Pass, c call) {
	s, ok := sectionOf(pass, c)
	if !ok || !c.isGuard("DoAll") {
		return
	}
	keys, ok := resolve(pass, c.cur, c.argument("keys")).(*ast.CompositeLit)
	if !ok || len(keys.Elts) < 2 {
		return
	}
	own := ownContext(pass, s.cur.Node().(*ast.FuncLit))
	for cur := range s.calls(pass) {
		inner, ok := newCall(pass.TypesInfo, cur)
		if ok && inner.isGuard("FencingToken") && inner.sig.Recv() == nil && own != nil &&
			objectOf(pass, inner.Args[0]) == own {
			pass.ReportRangef(inner, "there are several keys here, each with a token of its own: "+
				"ask the lease that guard.LeaseOf returns")
		}
	}
}
