package checks

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var grpcMethods = newAnalyzer("grpcmethods", `report gRPC methods that are written as texts

A rule for a method that does not exist locks nothing. The constants that protoc
generates, as in pb.Stock_Buy_FullMethodName, cannot be misspelled.`, never, checkGRPCMethods)

func checkGRPCMethods(pass *analysis.Pass, c call) {
	if !c.isMiddleware() {
		return
	}
	if text, ok := c.argument("method").(*ast.BasicLit); ok {
		pass.ReportRangef(text,
			"a misspelled method is never locked: use the generated constant, such as pb.Stock_Buy_FullMethodName")
	}
}
