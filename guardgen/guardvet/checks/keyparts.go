package checks

import (
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/go-lockguard/guard/guardgen/internal/keypart"
)

var keyParts = newAnalyzer("keyparts", `report calls of guard.Key that always give ""

A float, a slice, a struct or pointer without String or MarshalText and the like have
no spelling as a part of a key. guard.Key gives "" for them, which every verb refuses.`, never, checkKeyParts)

func checkKeyParts(pass *analysis.Pass, c call) {
	if !c.isKey() {
		return
	}
	if len(c.Args) == 0 {
		pass.ReportRangef(c, `guard.Key without parts is "", which is no key`)
	}
	for i, part := range c.Args {
		if c.Ellipsis.IsValid() && i == len(c.Args)-1 {
			return // Key(parts...)
		}
		if text, ok := constantText(pass, part); ok && text == "" {
			pass.ReportRangef(part, `guard.Key is "" with an empty part, which is no key`)
		}
		if what := refused(pass.TypesInfo.Types[part]); what != "" {
			pass.ReportRangef(part, `%s cannot be part of a key: guard.Key is "" here`, what)
		}
	}
}

// refused describes a part that guard.Key refuses whatever its value is.
func refused(part types.TypeAndValue) string {
	if part.IsNil() {
		return "nil"
	}
	if types.Identical(part.Type, types.Universe.Lookup("error").Type()) {
		return "an error"
	}
	what := keypart.Unfit(part.Type)
	if _, ok := types.Unalias(part.Type).(*types.TypeParam); what == "" || ok {
		return ""
	}
	if types.IsInterface(part.Type) && !isContext(part.Type) {
		return "" // its value may have a spelling
	}
	return what
}
