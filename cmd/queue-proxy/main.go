// SPDX-License-Identifier: Apache-2.0

// Command queue-proxy is that of Knative Serving, in the version of go.mod, with the sidecar in it: requests that enter
// are handled by the pod that holds their key, without a further process in between. It is experimental.
//
// It replaces the image of queue-proxy in pods that ask for it, and it must not be used with another minor version of
// Serving: reconciler/sidecar sees to both. Without the settings of the sidecar, it is the original.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"knative.dev/serving/pkg/activator"
	"knative.dev/serving/pkg/queue/sharedmain"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	var member *sidecar.Sidecar
	err := sharedmain.Main(func(d *sharedmain.Defaults) {
		var err error
		if member, err = join(d, log); err != nil {
			log.Error("queue-proxy ends", "error", err)
			os.Exit(1)
		}
	})
	// What has entered is over. Other members may still wait for requests that are handled here.
	if member != nil {
		if err := member.Leave(context.Background()); err != nil {
			log.Warn("not all requests have ended in time", "error", err)
		}
	}
	if err != nil {
		os.Exit(1)
	}
}

// asQueueProxy does to a request what the reverse proxy of queue-proxy does, whose place the sidecar takes: the
// container does not see what the activator says to queue-proxy, and X-Forwarded-For has who sent the request.
func asQueueProxy(entry http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range activator.RevisionHeaders {
			r.Header.Del(name)
		}
		if sender, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			r.Header.Set("X-Forwarded-For", strings.Join(append(r.Header.Values("X-Forwarded-For"), sender), ", "))
		}
		defer func() {
			// A handler whose answer was cut panics. Once Serving's time-out has answered, it no longer receives such a panic,
			// and the handler would wait forever. A request that has ended does not need it.
			if p := recover(); p != nil && (p != http.ErrAbortHandler || r.Context().Err() == nil) { //nolint:errorlint // it is this one
				panic(p)
			}
		}()
		entry.ServeHTTP(&late{w, r.Context()}, r)
	})
}

// join makes this pod a member, and lets it find out who handles each request.
func join(d *sharedmain.Defaults, log *slog.Logger) (*sidecar.Sidecar, error) {
	environment := os.Environ()
	if !slices.ContainsFunc(environment, func(v string) bool { return strings.HasPrefix(v, "STATEFUL_") }) {
		return nil, nil //nolint:nilnil // it is not asked to be a member
	}
	config, err := sidecar.FromEnvironment(environment)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the sidecar is not right: %w", err)
	}
	config.Embedded = true
	s, err := sidecar.New(config, log)
	if err != nil {
		return nil, fmt.Errorf("starting the sidecar: %w", err)
	}
	d.ProxyHandler = asQueueProxy(s.Entry())
	// It ends with the process: queue-proxy drains while others still rely on this member.
	ctx := context.WithoutCancel(d.Ctx)
	go func() {
		if err := s.Run(ctx); err != nil {
			log.Error("the sidecar ends, and queue-proxy with it", "error", err)
			os.Exit(1)
		}
	}()
	return s, nil
}
