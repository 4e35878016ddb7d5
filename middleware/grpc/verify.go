package lockmw

import (
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Verify reports rules by which no call is ever locked. Such a rule is for a
// method that server does not have, or is in neither [Unary] nor [Stream]. Or
// it is for a streaming method and in Unary alone, or for a unary method and in
// Stream alone. Without Verify such methods run unlocked.
//
// Call Verify with the rules of all interceptors after the registration of the
// services and before Serve. Do not serve if it returns an error.
//
//	if err := lockmw.Verify(s, rules...); err != nil {
//		return err
//	}
//
// A rule may be in both Unary and Stream, so the same rules can be given to
// both and to Verify. The error joins all findings and Is
// [guard.ErrInvalidOption]. server is a *grpc.Server. Verify does not block and
// is safe for concurrent use.
func Verify(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}, rules ...Rule,
) error {
	services := map[string][]rpcguard.Method{}
	for name, s := range server.GetServiceInfo() {
		services[name] = nil
		for _, m := range s.Methods {
			services[name] = append(services[name],
				rpcguard.Method{Name: m.Name, Streams: m.IsClientStream || m.IsServerStream})
		}
	}
	return rpcguard.Verify(rules, Rule.inner, func(r Rule) string { return r.r.Problem(services, true) })
}
