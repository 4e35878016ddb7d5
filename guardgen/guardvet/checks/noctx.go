package checks

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

var noCtx = newAnalyzer("noctx", `report calls under a lease that get no context

db.Exec and http.Get go on when the lease is lost and another holder runs. Call
db.ExecContext, or http.NewRequestWithContext, with the context of the lease. A method
is reported if there is one with the same parameters behind a context, and its value
was not made under the lease: a transaction that began with the context ends with it.`, never, checkNoCtx)

// withCtx has the functions whose counterparts are not found by their names.
var withCtx = map[string]string{
	"net/http.Get":                "http.NewRequestWithContext",
	"net/http.Head":               "http.NewRequestWithContext",
	"net/http.Post":               "http.NewRequestWithContext",
	"net/http.PostForm":           "http.NewRequestWithContext",
	"net/http.NewRequest":         "http.NewRequestWithContext",
	"(*net/http.Client).Get":      "http.NewRequestWithContext",
	"(*net/http.Client).Head":     "http.NewRequestWithContext",
	"(*net/http.Client).Post":     "http.NewRequestWithContext",
	"(*net/http.Client).PostForm": "http.NewRequestWithContext",
	"net.Dial":                    "net.Dialer.DialContext",
	"os/exec.Command":             "exec.CommandContext",
	"(*database/sql.DB).Begin":    "BeginTx",
}

func checkNoCtx(pass *analysis.Pass, c call) {
	s, ok := sectionOf(pass, c)
	if !ok {
		return
	}
	for cur := range s.calls(pass) {
		inner := cur.Node().(*ast.CallExpr)
		fn, ok := typeutil.Callee(pass.TypesInfo, inner).(*types.Func)
		if !ok || fn.FullName() == "net/http.NewRequest" && givesRequestContext(pass, c) {
			continue
		}
		with := withCtx[fn.FullName()]
		if with == "" && fn.Signature().Recv() != nil && s.isOutside(pass, inner.Fun) {
			with = counterpart(fn)
		}
		if with == "" {
			continue
		}
		pass.ReportRangef(inner, "%s goes on when the lease is lost: call %s with the context of the lease",
			types.ExprString(inner.Fun), with)
	}
}

// computes matches the names of methods that take a context for other reasons
// than to wait.
var computes = regexp.MustCompile("^(Validate|Encode|Decode|Marshal|Unmarshal)")

// counterpart returns the name of the method that is the method fn with a
// context before its parameters, or "". What returns neither an error nor a
// single row does not wait for anything.
func counterpart(fn *types.Func) string {
	sig := fn.Signature()
	waits := lostIn(sig.Results()) == "an error" || fn.Name() == "QueryRow"
	if !waits || computes.MatchString(fn.Name()) {
		return ""
	}
	if params := sig.Params(); params.Len() > 0 && isContext(params.At(0).Type()) {
		return ""
	}
	for _, suffix := range []string{"Context", "WithContext"} {
		obj, _, _ := types.LookupFieldOrMethod(sig.Recv().Type(), true, fn.Pkg(), fn.Name()+suffix)
		other, ok := obj.(*types.Func)
		if !ok || !types.Identical(sig.Results(), other.Signature().Results()) {
			continue
		}
		more := other.Signature().Params()
		if more.Len() == sig.Params().Len()+1 && isContext(more.At(0).Type()) {
			return other.Name()
		}
	}
	return ""
}

// givesRequestContext reports whether the function around c gives a context to
// a request that it has made.
func givesRequestContext(pass *analysis.Pass, c call) bool {
	found := false
	for outermost := range c.cur.Enclosing((*ast.FuncDecl)(nil)) {
		ast.Inspect(outermost.Node(), func(n ast.Node) bool {
			method, ok := n.(*ast.SelectorExpr)
			found = found || ok && (method.Sel.Name == "WithContext" || method.Sel.Name == "Clone") &&
				isNamed(pass.TypesInfo.TypeOf(method.X), "net/http", "Request")
			return !found
		})
	}
	return found
}
