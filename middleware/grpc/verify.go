package lockmw

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
)

// placement is where a rule was put: interceptors are made by several calls.
type placement struct{ unary, stream atomic.Bool }

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
	services := server.GetServiceInfo()
	var errs []error
	for _, r := range rules {
		if problem := r.problem(services); problem != "" {
			errs = append(errs, fmt.Errorf("%w: lockmw: rule for %q: %s", guard.ErrInvalidOption, r.method, problem))
		}
	}
	return errors.Join(errs...)
}

// problem says why r never locks a call of the services, "" if it does.
func (r Rule) problem(services map[string]grpc.ServiceInfo) string {
	service, name, ok := split(r.method)
	if !ok {
		return "it was not made by Key or KeyFunc"
	}
	s, known := services[service]
	if !known {
		return fmt.Sprintf("the server has no such service, only %q", slices.Sorted(maps.Keys(services)))
	}
	i := slices.IndexFunc(s.Methods, func(m grpc.MethodInfo) bool { return m.Name == name })
	if i < 0 {
		return fmt.Sprintf("the service has no such method, only %q", names(s.Methods))
	}
	switch streams := s.Methods[i].IsClientStream || s.Methods[i].IsServerStream; {
	case !r.placed.unary.Load() && !r.placed.stream.Load():
		return "no interceptor was made with it"
	case streams && !r.placed.stream.Load():
		return "the method streams, so the rule belongs to Stream, not to Unary"
	case !streams && !r.placed.unary.Load():
		return "the method does not stream, so the rule belongs to Unary, not to Stream"
	}
	return ""
}

func names(methods []grpc.MethodInfo) []string {
	all := make([]string, len(methods))
	for i, m := range methods {
		all[i] = m.Name
	}
	slices.Sort(all)
	return all
}

// split takes a full method name like "/shop.Stock/Buy" apart.
func split(method string) (service, name string, ok bool) {
	rest, slash := strings.CutPrefix(method, "/")
	service, name, found := strings.Cut(rest, "/")
	return service, name, slash && found && service != "" && name != "" && !strings.Contains(name, "/")
}
