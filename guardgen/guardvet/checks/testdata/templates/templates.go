package templates

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

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

func routes(g *guard.Guard, r *gin.Engine, e *echo.Echo, buy gin.HandlerFunc, sell echo.HandlerFunc) {
	r.POST("/z/:id", ginmw.Key(g, "stock:{sku}"), buy)                // want `the route "/z/:id" has no parameter "sku": each request is answered with 500`
	r.Handle(http.MethodPost, "/z", ginmw.Key(g, "{sku|lower}"), buy) // want `the route "/z" has no parameter "sku"`
	e.POST("/z/:id", sell, echomw.Key(g, "stock:{id}:{sku}"))         // want `has no parameter "sku"`

	r.POST("/:shop/z/:sku", ginmw.Key(g, "stock:{shop}:{sku|int}"), buy)
	r.POST("/files/*path", ginmw.Key(g, "file:{path}"), buy)
	r.POST("/z/:id", ginmw.Key(g, "stock:{query:sku}"), buy)
	r.Group("/:sku").POST("/z/:id", ginmw.Key(g, "stock:{sku}"), buy)
	e.POST("/z/:sku", sell, echomw.Key(g, "stock:{sku}"))
	e.Group("/:sku").POST("/z", sell, echomw.Key(g, "stock:{sku}"))
}
