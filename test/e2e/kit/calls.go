// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Calls are those of gRPC to the application of test/apps/streams, over one connection.
type Calls struct{ conn *grpc.ClientConn }

// NewCalls returns a client of a Service at an address.
func NewCalls(address, host string) (*Calls, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithAuthority(host),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connecting to the Service: %w", err)
	}
	return &Calls{conn}, nil
}

// Close ends the connection.
func (c *Calls) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("closing the connection: %w", err)
	}
	return nil
}

// with returns a context with the key, as metadata.
func with(ctx context.Context, key, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-key", key, "x-id", id)
}

// State asks what was seen of a stream.
func (c *Calls) State(ctx context.Context, key, id string) (out Seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	got := &wrapperspb.StringValue{}
	if err := c.conn.Invoke(with(ctx, key, id), "/streams.Streams/State", wrapperspb.String(id), got); err != nil {
		return out, fmt.Errorf("calling State: %w", err)
	}
	if err := json.Unmarshal([]byte(got.GetValue()), &out); err != nil {
		return out, fmt.Errorf("the answer is %q: %w", got.GetValue(), err)
	}
	return out, nil
}

// call is one of a stream in both directions.
type call struct{ grpc.ClientStream }

func (c *Calls) call(ctx context.Context, key, id string) (*call, error) {
	both := &grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true}
	stream, err := c.conn.NewStream(with(ctx, key, id), both, "/streams.Streams/Echo")
	if err != nil {
		return nil, fmt.Errorf("calling Echo: %w", err)
	}
	return &call{stream}, nil
}

// exchange sends a message and returns the answer. The error may be the status with which the call ends.
func (c *call) exchange(message string) (string, error) {
	if err := c.SendMsg(wrapperspb.String(message)); err != nil && !errors.Is(err, io.EOF) {
		return "", err //nolint:wrapcheck // a status
	}
	return c.receive()
}

func (c *call) receive() (string, error) {
	got := &wrapperspb.StringValue{}
	err := c.RecvMsg(got)
	return got.GetValue(), err //nolint:wrapcheck // a status
}

// Both exchanges a number of messages in one call, each after the answer to the one before, and ends it. It returns the
// pod that handled it.
func (c *Calls) Both(ctx context.Context, key, id string, messages int) (pod string, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	one, err := c.call(ctx, key, id)
	if err != nil {
		return "", err
	}
	for i := range messages {
		sent := fmt.Sprintf("message %d", i)
		if got, err := one.exchange(sent); err != nil || got != sent {
			return "", fmt.Errorf("the answer to %q is %q: %w", sent, got, err)
		}
	}
	header, err := one.Header()
	if err != nil {
		return "", fmt.Errorf("reading the header: %w", err)
	}
	if err := one.CloseSend(); err != nil {
		return "", fmt.Errorf("ending the call: %w", err)
	}
	if got, err := one.receive(); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("the call does not end in order: %q, %w", got, err)
	}
	if came := strings.Join(one.Trailer().Get("x-came"), ","); came != fmt.Sprint(messages) {
		return "", fmt.Errorf("the trailer is %v, want %d messages", one.Trailer(), messages)
	}
	return strings.Join(header.Get("x-pod"), ","), nil
}

// Fails makes a call that ends with a status of the application, and a trailer. Early: before the client has ended its
// part.
func (c *Calls) Fails(ctx context.Context, key, id string, early bool) error {
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	one, err := c.call(ctx, key, id)
	if err != nil {
		return err
	}
	if err := one.SendMsg(wrapperspb.String("fail")); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	if !early {
		if err := one.CloseSend(); err != nil {
			return fmt.Errorf("ending the call: %w", err)
		}
	}
	_, err = one.receive()
	if got := status.Convert(err); got.Code() != codes.FailedPrecondition || got.Message() != "as it was asked to" {
		return fmt.Errorf("the status is not that of the application: %w", err)
	}
	if came := strings.Join(one.Trailer().Get("x-came"), ","); came != "1" {
		return fmt.Errorf("the trailer is %v", one.Trailer())
	}
	return nil
}

// Cancel gives up a call after the application has it. The application learns that.
func (c *Calls) Cancel(ctx context.Context, key, id string) error {
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	return c.ends(ctx, waiting, key, id, giveUp, codes.Canceled)
}

// Deadline makes a call whose time runs out. The application learns that. Its own timer may be ahead of the client's:
// grpc-go's server then resets the stream with CANCEL, and a proxy of net/http makes INTERNAL_ERROR of it.
func (c *Calls) Deadline(ctx context.Context, key, id string) error {
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return c.ends(ctx, short, key, id, func() {}, codes.DeadlineExceeded, codes.Internal)
}

// ends makes a call that gets no answer in its own context, and then calls then.
func (c *Calls) ends(ctx, own context.Context, key, id string, then func(), want ...codes.Code) error {
	one, err := c.call(own, key, id)
	if err != nil {
		return err
	}
	if got, err := one.exchange("begin"); err != nil || got != "begin" {
		return fmt.Errorf("the first answer is %q: %w", got, err)
	}
	if err := one.SendMsg(wrapperspb.String("wait")); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	then()
	if _, err := one.receive(); !slices.Contains(want, status.Code(err)) {
		return fmt.Errorf("want the status %s: %w", want[0], err)
	}
	return waitSeen(ctx, "the end of the call",
		func(ctx context.Context) (Seen, error) { return c.State(ctx, key, id) }, ended)
}
