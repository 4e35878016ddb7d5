package handlers

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func buy(*gin.Context) {}

func reported(r *gin.Engine, g *guard.Guard) {
	r.POST("/stock/:sku", buy, lockmw.Key(g, "stock:{sku}"))   // want `no handler comes after this lock, so it guards nothing`
	r.GET("/nightly", lockmw.Static(g, "nightly"))             // want `no handler comes after this lock`
	r.Handle(http.MethodPut, "/:a", buy, lockmw.Key(g, "{a}")) // want `no handler comes after this lock`
	group := r.Group("/b")
	group.Any("/c", buy, buy, lockmw.Key(g, "{c}")) // want `no handler comes after this lock`
}

func fine(r *gin.Engine, g *guard.Guard, rest []gin.HandlerFunc) {
	r.POST("/stock/:sku", lockmw.Key(g, "stock:{sku}"), buy)
	r.Use(lockmw.Static(g, "nightly"))
	group := r.Group("/b", lockmw.Key(g, "{b}"))
	group.Use(lockmw.Key(g, "{c}"))
	group.POST("/d", append(rest, lockmw.Key(g, "{d}"))...)
	lock := lockmw.Key(g, "{e}")
	r.POST("/e", lock, buy)
}
