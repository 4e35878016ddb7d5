package lockmw

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Verify reports rules by which no call is ever locked. Such a rule is for a
// procedure that no service of the program has, or for messages of another
// type, or no handler has an interceptor with it. Without Verify such
// procedures run unlocked. Call it after the handlers are made and before the
// server starts. Do not start if it returns an error:
//
//	if err := lockmw.Verify(rules...); err != nil {
//		return err
//	}
//
// Connect does not tell which handlers a server has. For this reason Verify
// looks into the schemas that generated code has registered. Verify cannot see
// that a service is not mounted, that only another service has the interceptor,
// or that a handler has no registered schema. A test that holds the key sees
// all of that.
//
// The error joins all findings and Is [guard.ErrInvalidOption]. Verify does not
// block and is safe for concurrent use.
func Verify(rules ...Rule) error {
	services, inputs, outputs := schemas()
	return rpcguard.Verify(rules, Rule.inner, func(r Rule) string {
		if problem := r.r.Problem(services, false); problem != "" {
			return problem
		}
		return r.mismatch(inputs[r.r.Method], outputs[r.r.Method])
	})
}

// schemas returns the methods of all registered services, and the messages that
// they take and return by their procedures.
func schemas() (services map[string][]rpcguard.Method, inputs, outputs map[string]protoreflect.FullName) {
	services = map[string][]rpcguard.Method{}
	inputs, outputs = map[string]protoreflect.FullName{}, map[string]protoreflect.FullName{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			name := string(service.FullName())
			services[name] = nil
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				services[name] = append(services[name], rpcguard.Method{
					Name: string(m.Name()), Streams: m.IsStreamingClient() || m.IsStreamingServer(),
				})
				procedure := "/" + name + "/" + string(m.Name())
				inputs[procedure], outputs[procedure] = m.Input().FullName(), m.Output().FullName()
			}
		}
		return true
	})
	return services, inputs, outputs
}

// mismatch returns the reason why the rule never gets or gives a message, or "".
func (r Rule) mismatch(input, output protoreflect.FullName) string {
	if r.response != nil {
		if r.response.ProtoReflect().Descriptor().FullName() == output {
			return ""
		}
		return fmt.Sprintf("the responses of the procedure are %s, not %T", output, r.response)
	}
	m, ok := reflect.TypeAssert[proto.Message](reflect.Zero(r.r.Type))
	if ok && m.ProtoReflect().Descriptor().FullName() == input {
		return ""
	}
	return fmt.Sprintf("the messages of the procedure are %s, not %v", input, r.r.Type)
}
