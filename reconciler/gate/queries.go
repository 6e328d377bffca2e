// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/promquery"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
)

const (
	// queryTimeout is how long all queries of a run may take: others wait meanwhile.
	queryTimeout = 10 * time.Second
	// maxConcurrentQueries is how many queries of a run are asked at the same time.
	maxConcurrentQueries = 8
	// mostDetail limits what a message quotes, in characters.
	mostDetail = 300
)

// Queries asks the operator's queries.
type Queries struct {
	// Settings has the queries, and where to ask.
	Settings func() canary.Settings
	// Access is the folder with credentials for Prometheus.
	Access string
}

// Query answers all questions, as of one time. A question without an answer says why.
func (a *Queries) Query(
	ctx context.Context,
	at time.Time,
	all []gaterun.Question,
) map[gaterun.Question]gaterun.Reading {
	if a == nil || len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	settings := a.Settings()
	out := map[gaterun.Question]gaterun.Reading{}
	var known []gaterun.Question
	for _, q := range all {
		if _, has := settings.Queries[q.Query]; has {
			known = append(known, q)
		} else {
			out[q] = gaterun.Reading{Reason: gaterun.QueryUnknown, Detail: unknown(settings)}
		}
	}
	if len(known) == 0 {
		return out
	}
	server, err := promquery.Connect(settings.Prometheus, a.Access)
	if err != nil {
		for _, q := range known {
			out[q] = gaterun.Reading{Reason: gaterun.QueryFailed, Detail: fmt.Sprintf("%.*s", mostDetail, err)}
		}
		return out
	}
	defer server.Close()
	readings := make([]gaterun.Reading, len(known))
	var group errgroup.Group
	group.SetLimit(maxConcurrentQueries)
	for i, q := range known {
		group.Go(func() error {
			readings[i] = read(ctx, server, settings.Queries[q.Query], q, at)
			return nil
		})
	}
	_ = group.Wait() // errors are answers
	for i, q := range known {
		out[q] = readings[i]
	}
	return out
}

func unknown(s canary.Settings) string {
	if len(s.Queries) == 0 {
		return "the operator has put no query into ConfigMap " + canary.Name
	}
	return fmt.Sprintf("ConfigMap %s has no query of that name; it has %s", canary.Name,
		strings.Join(slices.Sorted(maps.Keys(s.Queries)), ", "))
}

func read(
	ctx context.Context,
	server *promquery.Prometheus,
	t promquery.Template,
	q gaterun.Question,
	at time.Time,
) gaterun.Reading {
	total, bad := t.Fill(promquery.Subject{Namespace: q.Namespace, Service: q.Service, Revision: q.Revision})
	out := gaterun.Reading{Version: t.Version()}
	for _, e := range []struct {
		name, expr string
		to         *float64
	}{{"total", total, &out.Total}, {"bad", bad, &out.Bad}} {
		n, err := server.Count(ctx, e.expr, at)
		if err != nil {
			reason := gaterun.QueryFailed
			var unusable *promquery.UnusableError
			if errors.As(err, &unusable) {
				reason = gaterun.QueryUnusable
			}
			return gaterun.Reading{Reason: reason, Detail: fmt.Sprintf("%s of Revision %s: %.*s", e.name, q.Revision, mostDetail,
				err)}
		}
		*e.to = n
	}
	return out
}
