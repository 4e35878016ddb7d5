package lockmw_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

func TestARuleByWhichNothingIsLockedIsFoundBeforeTheStart(t *testing.T) {
	rule := func(procedure string) lockmw.Rule { return lockmw.Key(nil, procedure, key) }
	used := func(r lockmw.Rule) lockmw.Rule { serve(t, done, r); return r }
	right := []lockmw.Rule{used(rule(buy)), used(rule(watch)), used(rule(haggle)), used(rule(gather))}
	if err := lockmw.Verify(right...); err != nil {
		t.Errorf("refused what is right: %v", err)
	}
	alone := rule(haggle)
	lockmw.Interceptor(alone)
	for wrong, want := range map[string]lockmw.Rule{
		`"/shop.Stock/Bye": the service has no such method, only ["Botch" "Buy"`: used(rule("/shop.Stock/Bye")),
		`"/shop.stock/Buy": there is no such service, only ["shop.Stock"]`:       used(rule("/shop.stock/Buy")),
		`"/shop.Stock/Haggle": no interceptor that is in use has it`:             alone,
		`"": it was not made by Key, KeyFunc or KeysFunc`:                        {},
		`"/shop.Stock/Buy": the messages of the procedure are google.protobuf.StringValue, not *wrapperspb.BytesValue`: used(
			lockmw.Key(nil, buy, func(*wrapperspb.BytesValue) string { return "k" })),
		`"/shop.Stock/Look": the messages of the procedure are google.protobuf.StringValue, not int`: used(
			lockmw.Key(nil, look, func(int) string { return "k" })),
	} {
		err := lockmw.Verify(append(right, want)...)
		if err == nil || !strings.Contains(err.Error(), wrong) || strings.Count(err.Error(), "rule for") != 1 {
			t.Errorf("got %v, want %s", err, wrong)
		}
		if !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%v is no ErrInvalidOption", err)
		}
	}
}

func TestARuleThatIsNoneIsFoundAtStartUp(t *testing.T) {
	for name, start := range map[string]func(){
		"no slash":    func() { lockmw.Key(nil, "shop.Stock/Buy", key) },
		"no service":  func() { lockmw.Key(nil, "/Buy", key) },
		"no function": func() { lockmw.Key[*message](nil, buy, nil) },
		"no KeyFunc":  func() { lockmw.KeyFunc[*message](nil, buy, nil) },
		"two rules":   func() { lockmw.Interceptor(lockmw.Key(nil, buy, key), lockmw.Key(nil, buy, key)) },
		"no message":  func() { lockmw.Idempotent[string](nil, buy, tenant, time.Hour) },
		"an own Rule": func() { lockmw.Interceptor(lockmw.Rule{}) },
	} {
		testguard.Panics(t, name, start)
	}
}
