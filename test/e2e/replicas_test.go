// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// replicas records the controller's pods and their addresses.
type replicas struct {
	mu   sync.Mutex
	seen map[string]oracle.Replica
}

func followReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{seen: map[string]oracle.Replica{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			r.look(ctx)
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return r
}

func (r *replicas) look(ctx context.Context) {
	pods, err := suite.Controller.Pods(ctx)
	if err != nil {
		return // if the API server does not answer, the next poll does
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range pods {
		if p := &pods[i]; p.Status.PodIP != "" {
			r.seen[p.Name] = oracle.Replica{Name: p.Name, Address: p.Status.PodIP, Created: p.CreationTimestamp.Time}
		}
	}
}

// watchings returns the times in which each replica watched all Routes, from the API server's audit log. It is nil if
// replicas are not recorded.
func (r *replicas) watchings(ctx context.Context) ([]oracle.Watching, error) {
	if r == nil || suite.audit == nil {
		return nil, nil
	}
	user, err := suite.Controller.ServiceAccount(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := suite.audit.of(user)
	if err != nil {
		return nil, err
	}
	var requests []oracle.Request
	for _, e := range entries {
		if e.ObjectRef == nil || e.ObjectRef.Resource != "routes" || e.Verb != "watch" || e.ResponseStatus.Code >= 300 {
			continue
		}
		requests = append(requests, oracle.Request{
			ID: e.AuditID, Address: strings.Join(e.SourceIPs, ","), At: e.StageTimestamp, Began: e.Stage == "ResponseStarted",
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return oracle.Watchings(requests, slices.Collect(maps.Values(r.seen))), nil
}
