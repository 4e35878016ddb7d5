package lockmw_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/grpc"
)

func TestARuleByWhichNothingIsLockedIsFoundBeforeServe(t *testing.T) {
	s := grpc.NewServer()
	defer s.Stop()
	s.RegisterService(desc(), &shop{})
	rule := func(method string) lockmw.Rule { return lockmw.Key(nil, method, key) }
	inUnary := func(r lockmw.Rule) lockmw.Rule { lockmw.Unary(r); return r }
	inStream := func(r lockmw.Rule) lockmw.Rule { lockmw.Stream(r); return r }

	right := []lockmw.Rule{
		inUnary(rule(buy)), inStream(rule(watch)), inStream(rule(haggle)),
		inStream(inUnary(rule(look))),
	}
	if err := lockmw.Verify(s, right...); err != nil {
		t.Errorf("refused what is right: %v", err)
	}
	for wrong, want := range map[string]lockmw.Rule{
		`"/shop.Stock/Bye": the service has no such method, only ["Botch" "Buy"`:  inUnary(rule("/shop.Stock/Bye")),
		`"/shop.stock/Buy": there is no such service, only ["shop.Stock"]`:        inUnary(rule("/shop.stock/Buy")),
		`"/shop.Stock/Watch": the method streams, so the rule belongs to Stream`:  inUnary(rule(watch)),
		`"/shop.Stock/Buy": the method does not stream, so the rule belongs to U`: inStream(rule(buy)),
		`"/shop.Stock/Haggle": no interceptor that is in use has it`:              rule(haggle),
		`"": it was not made by Key, KeyFunc or KeysFunc`:                         {},
	} {
		err := lockmw.Verify(s, append(right, want)...)
		if err == nil || !strings.Contains(err.Error(), wrong) || strings.Count(err.Error(), "rule for") != 1 {
			t.Errorf("got %v, want %s", err, wrong)
		}
		if !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%v is no ErrInvalidOption", err)
		}
	}
}
