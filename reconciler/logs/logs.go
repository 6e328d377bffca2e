// SPDX-License-Identifier: Apache-2.0

// Package logs cuts credentials out of what is logged.
//
// Its invariant: whatever a logger of a returned context is given, no credential of a URL in it is written.
package logs

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// WithoutCredentials returns a context whose logger writes no credentials. Errors of others quote URLs.
func WithoutCredentials(ctx context.Context) context.Context {
	logger := logging.FromContext(ctx).Desugar()
	if _, is := logger.Core().(core); is {
		return ctx
	}
	return logging.WithLogger(
		ctx,
		logger.WithOptions(zap.WrapCore(func(to zapcore.Core) zapcore.Core { return core{to} })).Sugar(),
	)
}

// core cleans entries on their way to another core.
type core struct{ zapcore.Core }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core { return core{c.Core.With(clean(fields))} }

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(e, nil) == nil { // the level, or too many of the same
		return to
	}
	return to.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = sanitize.WithoutCredentials(e.Message)
	return c.Core.Write(e, clean(fields)) //nolint:wrapcheck // the caller is zap
}

// clean returns fields without credentials. Those that have none stay as they are.
func clean(fields []zapcore.Field) []zapcore.Field {
	out := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		out[i] = cleanField(f)
	}
	return out
}

func cleanField(f zapcore.Field) zapcore.Field {
	switch f.Type {
	case zapcore.BoolType, zapcore.DurationType, zapcore.Float64Type, zapcore.Int64Type, zapcore.Int32Type,
		zapcore.TimeType, zapcore.Uint64Type,
		zapcore.SkipType, zapcore.NamespaceType:
		return f
	case zapcore.StringType:
		f.String = sanitize.WithoutCredentials(f.String)
		return f
	case zapcore.ErrorType, zapcore.StringerType:
		return cleaned(f, func() string { return fmt.Sprint(f.Interface) })
	}
	return cleaned(f, func() string {
		all := zapcore.NewMapObjectEncoder()
		f.AddTo(all)
		raw, err := json.Marshal(all.Fields[f.Key])
		if err != nil {
			return fmt.Sprint(all.Fields[f.Key])
		}
		return string(raw)
	})
}

// cleaned returns a field with the text instead of its value, if the text has credentials.
func cleaned(f zapcore.Field, as func() string) zapcore.Field {
	was := as()
	if is := sanitize.WithoutCredentials(was); is != was {
		return zap.String(f.Key, is)
	}
	return f
}
