package lockmw_test

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type message = wrapperspb.StringValue

// The procedures of a handwritten service with strings as messages.
const (
	buy     = "/shop.Stock/Buy"
	price   = "/shop.Stock/Price"   // the same key as buy
	watch   = "/shop.Stock/Watch"   // one message, a stream of answers
	gather  = "/shop.Stock/Gather"  // a stream of messages, one answer
	haggle  = "/shop.Stock/Haggle"  // a stream both ways
	look    = "/shop.Stock/Look"    // without a rule
	confuse = "/shop.Stock/Confuse" // a rule for messages of another type
	muddle  = "/shop.Stock/Muddle"  // a stream with a rule for messages of another type
	botch   = "/shop.Stock/Botch"   // a rule whose key is a Sprintf gone wrong
)

// register registers the schema of the service, as generated code does.
func register() error {
	input := proto.String(".google.protobuf.StringValue")
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Stock")}
	for name, streams := range map[string][2]bool{ // of the client, of the server
		"Buy": {}, "Price": {}, "Look": {}, "Confuse": {}, "Botch": {},
		"Watch": {false, true}, "Gather": {true, false}, "Haggle": {true, true}, "Muddle": {true, true},
	} {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: input, OutputType: input,
			ClientStreaming: proto.Bool(streams[0]), ServerStreaming: proto.Bool(streams[1]),
		})
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("shop.proto"), Package: proto.String("shop"), Syntax: proto.String("proto3"),
		Dependency: []string{wrapperspb.File_google_protobuf_wrappers_proto.Path()},
		Service:    []*descriptorpb.ServiceDescriptorProto{service},
	}, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
}
