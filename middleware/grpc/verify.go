package lockmw

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/rpcrule"
)

// Verify reports rules by which no call is ever locked: of a method that
// server does not have, of a method that streams in [Unary] alone, of one that
// does not in [Stream] alone, and of a rule that is in neither. Without it such
// a method runs unlocked. Call it with the rules of all interceptors, between
// the registration of the services and Serve, and do not serve on an error.
//
//	if err := lockmw.Verify(s, rules...); err != nil {
//		return err
//	}
//
// A rule may be in both Unary and Stream, so the same rules can be given to
// both and to Verify. The error joins all that is wrong and Is
// [guard.ErrInvalidOption]. server is a *grpc.Server. Verify does not block and
// is safe for concurrent use.
func Verify(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}, rules ...Rule,
) error {
	services := map[string][]rpcrule.Method{}
	for name, s := range server.GetServiceInfo() {
		services[name] = nil
		for _, m := range s.Methods {
			services[name] = append(services[name],
				rpcrule.Method{Name: m.Name, Streams: m.IsClientStream || m.IsServerStream})
		}
	}
	var errs []error
	for _, r := range rules {
		if problem := r.r.Problem(services, true); problem != "" {
			errs = append(errs, fmt.Errorf("%w: lockmw: rule for %q: %s", guard.ErrInvalidOption, r.method(), problem))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) method() string {
	if r.r == nil {
		return ""
	}
	return r.r.Method
}
