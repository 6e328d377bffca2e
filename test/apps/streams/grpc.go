// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// service has no generated code: all its messages are texts.
var service = grpc.ServiceDesc{
	ServiceName: "streams.Streams", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "State", Handler: unary}},
	Streams: []grpc.StreamDesc{{StreamName: "Echo", Handler: bidirectional, ServerStreams: true, ClientStreams: true}},
}

func unary(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is grpc's
	in := &wrapperspb.StringValue{}
	if err := decode(in); err != nil {
		return nil, err
	}
	return srv.(*streams).stateOf(ctx, in.GetValue()) //nolint:errcheck // it was registered
}

func bidirectional(srv any, stream grpc.ServerStream) error {
	return srv.(*streams).calls(stream) //nolint:errcheck // it was registered
}

// serveGRPC serves at PORT until the context ends.
func (s *streams) serveGRPC(ctx context.Context) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+cmp.Or(os.Getenv("PORT"), "8080"))
	if err != nil {
		log.Fatalf("serving: %v", err)
	}
	server := s.server()
	context.AfterFunc(ctx, server.Stop)
	if err := server.Serve(listener); err != nil {
		log.Fatalf("serving: %v", err)
	}
}

func (s *streams) server() *grpc.Server {
	server := grpc.NewServer()
	server.RegisterService(&service, s)
	return server
}

// first returns the first value of a request's metadata.
func first(ctx context.Context, name string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return cmp.Or(md.Get(name)...)
}

// stateOf returns what this pod has seen of a stream, in JSON.
func (s *streams) stateOf(ctx context.Context, id string) (*wrapperspb.StringValue, error) {
	if first(ctx, "stateful-key") == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no key")
	}
	now := s.change(id, func(*seen) {})
	now.Shard, now.Key = first(ctx, "stateful-shard"), first(ctx, "stateful-key")
	text, err := json.Marshal(now)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return wrapperspb.String(string(text)), nil
}

// calls returns each message, except "fail", which ends the call with a status, and "wait", after which nothing comes
// until the client has gone. The header says which pod it is, and the trailer how many messages came.
func (s *streams) calls(stream grpc.ServerStream) error {
	ctx := stream.Context()
	if first(ctx, "stateful-key") == "" {
		return status.Error(codes.InvalidArgument, "the call has no key")
	}
	end := s.begin(first(ctx, "x-id"))
	defer end()
	if err := stream.SendHeader(metadata.Pairs("x-pod", s.pod)); err != nil {
		return err
	}
	came := 0
	defer func() { stream.SetTrailer(metadata.Pairs("x-came", strconv.Itoa(came))) }()
	for {
		in := &wrapperspb.StringValue{}
		err := stream.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		came++
		switch in.GetValue() {
		case "fail":
			return status.Error(codes.FailedPrecondition, "as it was asked to")
		case "wait":
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		if err := stream.SendMsg(in); err != nil {
			return err
		}
	}
}
