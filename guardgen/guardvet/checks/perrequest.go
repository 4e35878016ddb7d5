package checks

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

var perRequest = newAnalyzer("perrequest", `report guards and middlewares that are made in handlers and loops

With checks its options and copies the guard, and panics if an option is wrong: call it
at start-up, once for each route. A guard that guard.New makes for each request knows
nothing of the others: nobody waits in one queue, and MaxWaiters and Close mean nothing.`, never, checkPerRequest)

func checkPerRequest(pass *analysis.Pass, c call) {
	what := "With"
	switch {
	case c.isMiddleware() && slices.Contains(lockMakers, c.fn.Name()):
		what = "lockmw." + c.fn.Name()
	case c.isGuard("New") && c.sig.Recv() == nil:
		if what = "guard.New"; !isOnlyUsed(pass, c) {
			return // it may be kept for the next request
		}
	case !c.isGuard("With"):
		return
	}
	for fn := range c.cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if isHandler(pass, fn.Node()) {
			pass.ReportRangef(c, "%s is called for each request here: call it once, at start-up", what)
			return
		}
		if isOnce(pass, fn) {
			return
		}
	}
	if !c.isMiddleware() && isUsedInLoop(pass, c) {
		pass.ReportRangef(c, "%s is called in each round of the loop: call it once, before", what)
	}
}

// lockMakers are the functions that make the lock of a route, and read its
// template.
var lockMakers = []string{"Key", "KeyFunc", "KeyFrom", "Static"}

// isOnlyUsed reports whether the guard that c makes is a variable of the
// function around it, and only verbs and the like get it.
func isOnlyUsed(pass *analysis.Pass, c call) bool {
	guard := guardOf(pass, c)
	fn := functionOf(c.cur)
	if guard == nil || fn.Node() == nil || guard.Pos() < fn.Node().Pos() || fn.Node().End() <= guard.Pos() {
		return false
	}
	for use := range fn.Preorder((*ast.Ident)(nil)) {
		if pass.TypesInfo.Uses[use.Node().(*ast.Ident)] != guard {
			continue
		}
		switch parent := use.Parent().Node().(type) {
		case *ast.SelectorExpr, *ast.BinaryExpr:
		case *ast.CallExpr:
			if _, ok := newCall(pass.TypesInfo, use.Parent()); !ok || parent.Fun == use.Node() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// guardOf returns the variable that gets the guard that c makes, or nil.
func guardOf(pass *analysis.Pass, c call) types.Object {
	if assign, ok := c.cur.Parent().Node().(*ast.AssignStmt); ok && len(assign.Rhs) == 1 {
		return objectOf(pass, assign.Lhs[0])
	}
	return nil
}

// isOnce reports whether package sync runs fn, as in once.Do(fn).
func isOnce(pass *analysis.Pass, fn inspector.Cursor) bool {
	c, ok := fn.Parent().Node().(*ast.CallExpr)
	if !ok {
		return false
	}
	callee, ok := typeutil.Callee(pass.TypesInfo, c).(*types.Func)
	return ok && callee.Pkg() != nil && callee.Pkg().Path() == "sync"
}

// requests are the parameters by which handlers are known.
var requests = [][2]string{
	{"net/http", "Request"},
	{"github.com/gin-gonic/gin", "Context"},
	{"github.com/labstack/echo", "Context"},
	{"github.com/gofiber/fiber", "Ctx"},
	{"connectrpc.com/connect", "Request"},
	{"github.com/hibiken/asynq", "Task"},
	{"github.com/ThreeDotsLabs/watermill/message", "Message"},
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
		if slices.ContainsFunc(requests, func(r [2]string) bool { return isNamed(t, r[0], r[1]) }) {
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
	guard, called := guardOf(pass, c), false
	for cur := range loop.Preorder((*ast.CallExpr)(nil)) {
		verb, ok := newCall(pass.TypesInfo, cur)
		if !ok || functionOf(cur) != functionOf(loop) {
			continue
		}
		method, ok := ast.Unparen(verb.Fun).(*ast.SelectorExpr)
		if !ok || method.X != c.CallExpr && (guard == nil || objectOf(pass, method.X) != guard) {
			continue
		}
		if verb.isGuard("Close") {
			return false // each round has a guard of its own, as in a comparison
		}
		called = called || verb.isVerb() && !verb.isGuard("Lead")
	}
	return called
}
