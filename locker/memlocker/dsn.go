package memlocker

import (
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func init() { locker.RegisterDSN("mem", fromDSN) }

// fromDSN serves [locker.FromDSN]. Each locker has a store of its own.
func fromDSN(dsn string) (locker.Locker, error) {
	if dsn != "mem:" && dsn != "mem://" {
		return nil, lockerkit.Invalid("memlocker", `the address is "mem:" and no more`)
	}
	return New(), nil
}
