// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// answer is what an error of the brokers means: the status with which an HTTP sink would say the same, and what to
// do.
type answer struct {
	class  transport.Class
	status int
	says   string
}

const (
	checkLogin = "; the event is kept: check the user, the password and the mechanism in the Secret of " +
		"spec.auth.authorization"
	checkRights = "; the event is kept: allow the user to write to the topic"
)

const (
	tooLarge = ": the event is larger than the topic allows "
	retried  = "; the event is retried: "
	replicas = retried + "too few replicas are in sync (min.insync.replicas)"
)

var answers = map[*kerr.Error]answer{
	kerr.SaslAuthenticationFailed:   {transport.Unauthorized, http.StatusUnauthorized, checkLogin},
	kerr.UnsupportedSaslMechanism:   {transport.Unauthorized, http.StatusUnauthorized, checkLogin},
	kerr.IllegalSaslState:           {transport.Unauthorized, http.StatusUnauthorized, checkLogin},
	kerr.TopicAuthorizationFailed:   {transport.Unauthorized, http.StatusForbidden, checkRights},
	kerr.ClusterAuthorizationFailed: {transport.Unauthorized, http.StatusForbidden, checkRights},

	kerr.UnknownTopicOrPartition: {transport.Retry, http.StatusNotFound, retried + "create the topic, or correct the URI"},
	kerr.UnknownTopicID:          {transport.Retry, http.StatusNotFound, retried + "the topic was made again"},
	kerr.InvalidTopicException:   {transport.Retry, http.StatusNotFound, retried + "correct the topic in the sink's URI"},

	kerr.MessageTooLarge:    {transport.Poison, http.StatusRequestEntityTooLarge, tooLarge + "(max.message.bytes)"},
	kerr.RecordListTooLarge: {transport.Poison, http.StatusRequestEntityTooLarge, tooLarge + "(segment.bytes)"},
	kerr.InvalidRecord:      {transport.Poison, http.StatusBadRequest, ": the topic refuses this event for good"},
	kerr.InvalidTimestamp:   {transport.Poison, http.StatusBadRequest, ": the topic refuses the time of this event"},

	kerr.PolicyViolation:              {transport.Retry, http.StatusServiceUnavailable, retried + "check their policies"},
	kerr.NotEnoughReplicas:            {transport.Retry, http.StatusServiceUnavailable, replicas},
	kerr.NotEnoughReplicasAfterAppend: {transport.Retry, http.StatusServiceUnavailable, replicas},
}

// classify returns the outcome of a failed attempt. It quotes nothing that a broker says.
func classify(err error, timeout time.Duration) transport.Outcome {
	var code *kerr.Error
	if errors.As(err, &code) {
		a, known := answers[code]
		if !known {
			a = answer{transport.Retry, http.StatusServiceUnavailable, "; the event is retried: check the brokers' logs"}
		}
		return transport.Outcome{Class: a.class, Status: a.status, Err: fmt.Errorf("the brokers answered %s%s",
			code.Message, a.says)}
	}
	out := transport.Outcome{Class: transport.Retry}
	var (
		refused   *transport.RefusedError
		forbidden *forbiddenError
		dial      *dialError
		plain     tls.RecordHeaderError
		first     *kgo.ErrFirstReadEOF
	)
	switch {
	case errors.As(err, &forbidden):
		return transport.Outcome{Class: transport.Unauthorized, Err: forbidden}
	case errors.As(err, &refused):
		out.Err = refused
	case errors.As(err, &plain):
		out.Err = errors.New("the broker does not speak TLS on this port; use kafka://, or another port")
	case transport.IsRejectedCertificate(err):
		return transport.Outcome{Class: transport.Unauthorized, Err: transport.Explain(err, timeout)}
	case errors.As(err, &dial):
		out.Err = transport.Explain(dial.error, timeout)
	case errors.As(err, &first), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		out.Err = errors.New("the broker closed the connection without an answer; it may want TLS (kafkas://), a login " +
			"(spec.auth), or not be ready")
	case errors.Is(err, kgo.ErrMaxBuffered):
		out.Err = errors.New("too many events have no answer yet; the event is retried")
	case errors.Is(err, context.Canceled), transport.IsTimeout(err):
		out.Err = transport.Explain(err, timeout)
	default:
		out.Err = errors.New("the brokers cannot be used; check their logs, and that the sink's URI names a Kafka cluster")
	}
	return out
}
