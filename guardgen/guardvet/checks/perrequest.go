package checks

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var perRequest = newAnalyzer("perrequest", `report calls of With in handlers and loops

With checks its options and copies the guard, and panics if an option is wrong: call it
at start-up, once for each route.`, never, checkPerRequest)

func checkPerRequest(pass *analysis.Pass, c call) {
	if !c.isGuard("With") {
		return
	}
	for fn := range c.cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if isHandler(pass, fn.Node()) {
			pass.ReportRangef(c, "With is called for each request here: call it once, at start-up")
			return
		}
	}
	if isUsedInLoop(pass, c) {
		pass.ReportRangef(c, "With is called in each round of the loop: call it once, before")
	}
}

// isHandler reports whether a function serves requests.
func isHandler(pass *analysis.Pass, fn ast.Node) bool {
	var list *ast.FieldList
	switch fn := fn.(type) {
	case *ast.FuncDecl:
		list = fn.Type.Params
	case *ast.FuncLit:
		list = fn.Type.Params
	}
	var params []types.Type
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			params = append(params, pass.TypesInfo.TypeOf(field.Type))
		}
	}
	for _, t := range params {
		if isNamed(t, "net/http", "Request") || isGinContext(t) || isNamed(t, "github.com/labstack/echo", "Context") {
			return true
		}
	}
	return len(params) == 2 && isContext(params[0]) && isMessage(params[1]) // a gRPC method
}

// isMessage reports whether t is a protobuf message.
func isMessage(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, false, nil, "ProtoReflect")
	_, ok := obj.(*types.Func)
	return ok
}

// isUsedInLoop reports whether a verb is called on the result of c in the same
// round of a loop. A loop over the routes of a service does not count.
func isUsedInLoop(pass *analysis.Pass, c call) bool {
	for outer := range c.cur.Enclosing(
		(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch outer.Node().(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return isCalledOn(pass, outer, c)
		}
		return false
	}
	return false
}

// isCalledOn reports whether a verb is called in loop on the result of c, by
// the function that loops.
func isCalledOn(pass *analysis.Pass, loop inspector.Cursor, c call) bool {
	var guard types.Object
	if assign, ok := c.cur.Parent().Node().(*ast.AssignStmt); ok && len(assign.Lhs) == 1 {
		if id, ok := assign.Lhs[0].(*ast.Ident); ok {
			guard = pass.TypesInfo.Defs[id]
		}
	}
	for cur := range loop.Preorder((*ast.CallExpr)(nil)) {
		verb, ok := newCall(pass.TypesInfo, cur)
		if !ok || !verb.isVerb() || verb.isGuard("Lead") || functionOf(cur) != functionOf(loop) {
			continue
		}
		method, ok := ast.Unparen(verb.Fun).(*ast.SelectorExpr)
		if !ok {
			continue
		}
		id, _ := ast.Unparen(method.X).(*ast.Ident)
		if method.X == c.CallExpr || id != nil && guard != nil && pass.TypesInfo.Uses[id] == guard {
			return true
		}
	}
	return false
}

// functionOf returns the innermost function around cur.
func functionOf(cur inspector.Cursor) ast.Node {
	for fn := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return fn.Node()
	}
	return nil
}
