package templates

import (
	"github.com/go-lockguard/guard"
	echomw "github.com/go-lockguard/guard/middleware/echo"
	ginmw "github.com/go-lockguard/guard/middleware/gin"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

const constant = "stock:" + "sku"

func reported(g *guard.Guard) {
	_ = lockmw.Key(g, "stock:sku")  // want `template "stock:sku" has no {placeholder}: write one, or lockmw.Static`
	_ = lockmw.Key(g, "stock/:sku") // want `template "stock/:sku" has no {placeholder}`
	_ = ginmw.Key(g, "stock:$sku")  // want `template "stock:\$sku" has no {placeholder}`
	_ = ginmw.Key(g, "stock:<sku>") // want `template "stock:<sku>" has no {placeholder}`
	_ = echomw.Key(g, "stock:%s")   // want `template "stock:%s" has no {placeholder}`
	_ = echomw.Key(g, constant)     // want `template "stock:sku" has no {placeholder}`
}

func fine(g *guard.Guard, template string) {
	_ = lockmw.Key(g, "stock:{sku}")
	_ = lockmw.Key(g, template)
	_ = lockmw.Static(g, "nightly")
	_ = ginmw.Key(g, "stock:{sku|int}")
	_ = echomw.Key(g, "{sku}")
	_ = guard.Key("stock")
}
