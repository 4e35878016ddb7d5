// A shop with gin and GORM that never sells more than it has. It needs a Redis
// on localhost:6379, and a MySQL or MariaDB on localhost:3306 with a database
// "shop".
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb), guard.WithName("shop"))
	if err != nil {
		log.Fatal(err)
	}
	db, err := gorm.Open(mysql.Open("root@tcp(localhost:3306)/shop?parseTime=true"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := open(db, g, sqlfence.MySQL)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Addr: "localhost:8080", Handler: s.routes(), ReadTimeout: 10 * time.Second}
	log.Fatal(srv.ListenAndServe())
}

// Stock is what is left of one thing.
type Stock struct {
	SKU string `gorm:"primaryKey;size:64"`
	N   int
}

// Order is what has been sold.
type Order struct {
	ID  uint
	SKU string `gorm:"size:64;index"`
	Qty int
}

type shop struct {
	db     *gorm.DB
	g      *guard.Guard // with fencing tokens
	fences *sqlfence.Table
}

var errSoldOut = errors.New("sold out")

// open makes a shop of a database, with its tables.
func open(db *gorm.DB, g *guard.Guard, dialect sqlfence.Dialect) (*shop, error) {
	fences, err := sqlfence.New(dialect, "fences")
	if err != nil {
		return nil, err
	}
	if err := db.AutoMigrate(&Stock{}, &Order{}); err != nil {
		return nil, err
	}
	return &shop{db, g.With(guard.WithFencing()), fences}, db.Exec(fences.Schema()).Error
}

// buy sells qty of sku. The lock is outside, the transaction inside: Do frees
// the key when the transaction has been committed, or rolled back.
func (s *shop) buy(ctx context.Context, sku string, qty int) error {
	return s.g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
		token, err := guard.FencingToken(ctx)
		if err != nil {
			return err
		}
		return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			return s.take(tx, sku, qty, token)
		})
	})
}

// take is what one transaction does, alone with the sku.
func (s *shop) take(tx *gorm.DB, sku string, qty int, token uint64) error {
	ctx, conn := tx.Statement.Context, tx.Statement.ConnPool
	if err := s.fences.Check(ctx, conn, guard.Key("stock", sku), token); err != nil { // first of all
		return err
	}
	var left Stock
	if err := tx.First(&left, "sku = ?", sku).Error; err != nil {
		return err
	}
	if left.N < qty {
		return errSoldOut
	}
	left.N -= qty
	if err := tx.Save(&left).Error; err != nil {
		return err
	}
	return tx.Create(&Order{SKU: sku, Qty: qty}).Error
}

// buyAll sells one of each sku, or nothing.
func (s *shop) buyAll(ctx context.Context, skus []string) error {
	keys := make([]string, len(skus))
	for i, sku := range skus {
		keys[i] = guard.Key("stock", sku)
	}
	return s.g.DoAll(ctx, keys, func(ctx context.Context) error {
		return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			for _, sku := range slices.Sorted(slices.Values(skus)) { // as every transaction orders its rows
				lease, _ := guard.LeaseOf(ctx, guard.Key("stock", sku))
				token, err := lease.FencingToken(ctx)
				if err != nil {
					return err
				}
				if err := s.take(tx, sku, 1, token); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (s *shop) routes() http.Handler {
	r := gin.New()
	r.POST("/skus/:sku/buy", lockmw.Key(s.g, "stock:{sku}"), func(c *gin.Context) {
		err := s.buy(c.Request.Context(), c.Param("sku"), 1) // its Do runs inside the lease of the route
		switch {
		case errors.Is(err, errSoldOut):
			c.JSON(http.StatusGone, gin.H{"code": "sold_out"})
		case err != nil:
			_ = c.AbortWithError(http.StatusInternalServerError, err)
		default:
			c.Status(http.StatusNoContent)
		}
	})
	return r
}
