package lockmw

import (
	"fmt"
	"path"
	"reflect"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Verify reports rules by which no call of server is ever locked. Such a rule
// is for a procedure that the server does not have, or for messages of another
// type, or no server has an interceptor with it. Without Verify such procedures
// run unlocked. Call it after the handlers are registered and before the server
// starts. Do not start if it returns an error:
//
//	if err := lockmw.Verify(server, rules...); err != nil {
//		return err
//	}
//
// Verify cannot see that only another server has the interceptor, nor the
// messages of a procedure without a protobuf schema. A test that holds the key
// sees that.
//
// The error joins all findings and Is [guard.ErrInvalidOption]. Verify does not
// block. It must not run while handlers are registered.
func Verify(server *connect.Server, rules ...Rule) error {
	specs := map[string]connect.Spec{}
	services := map[string][]rpcguard.Method{}
	for s := range server.Specs() {
		specs[s.Procedure] = s
		service, name := path.Split(s.Procedure)
		service = path.Clean(service)[1:]
		services[service] = append(services[service],
			rpcguard.Method{Name: name, Streams: s.StreamType != connect.StreamTypeUnary})
	}
	return rpcguard.Verify(rules, Rule.inner, func(r Rule) string {
		if problem := r.r.Problem(services, false); problem != "" {
			return problem
		}
		return r.mismatch(specs[r.r.Method])
	})
}

// mismatch returns the reason why the rule never gets or gives a message, or
// "".
func (r Rule) mismatch(spec connect.Spec) string {
	schema, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return ""
	}
	m, _ := reflect.TypeAssert[proto.Message](reflect.Zero(r.r.Type))
	if input := schema.Input().FullName(); m == nil || m.ProtoReflect().Descriptor().FullName() != input {
		return fmt.Sprintf("the messages of the procedure are %s, not %v", input, r.r.Type)
	}
	if output := schema.Output().FullName(); r.response != nil &&
		r.response.ProtoReflect().Descriptor().FullName() != output {
		return fmt.Sprintf("the responses of the procedure are %s, not %T", output, r.response)
	}
	return ""
}
