package etcdtest_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/lockertest"
)

func TestTheLockerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		addr, prefix := store(t)
		t.Cleanup(func() { wantNoKeys(t, addr, prefix) })
		one := func() locker.Locker {
			return etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix))
		}
		return one(), one()
	})
}

func TestTheLockerKeepsItsPromisesWithoutAnswers(t *testing.T) {
	t.Parallel()
	for name, breakOne := range map[string]func(p *faultpipe.Lossy) (mend func()){
		"the server hangs":    func(p *faultpipe.Lossy) func() { return p.Cut(true, true) },
		"requests get lost":   func(p *faultpipe.Lossy) func() { return p.Cut(true, false) },
		"answers get lost":    func(p *faultpipe.Lossy) func() { return p.Cut(false, true) },
		"connections refused": (*faultpipe.Lossy).Refuse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
				t.Helper()
				addr, prefix := store(t)
				one := func() (*faultpipe.Lossy, locker.Locker) {
					p := faultpipe.NewLossy(t, addr)
					return p, etcdlocker.New(etcdtest.Client(t, p.Addr), etcdlocker.WithPrefix(prefix))
				}
				p, a := one()
				q, b := one()
				return a, b, func() func() {
					mends := []func(){breakOne(p), breakOne(q)}
					return func() {
						for _, mend := range mends {
							mend()
						}
					}
				}
			}, lockertest.AtOnce(8))
		})
	}
}
