// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// service is the view of one Service.
type service struct {
	report.Service
	// Gone: it is deleted.
	Gone bool `json:"gone,omitempty"`
	// Moments are its time line, oldest first.
	Moments []timeline.Moment `json:"moments"`
	// Revisions are those of the time line, and those that exist, newest first.
	Revisions []revision `json:"revisions"`
	// History is what happened, oldest first.
	History *report.History `json:"history"`
	// Runs are the running or last runs of its gates.
	Runs []run `json:"runs"`
	// Findings are what is wrong with it, and with the sources that send its events. What is wrong with a gate is in its
	// run.
	Findings []advice.Finding `json:"findings"`
}

type revision struct {
	Name    string     `json:"name"`
	Created *time.Time `json:"created,omitempty"`
	Ready   string     `json:"ready,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Image   string     `json:"image,omitempty"`
	Percent int64      `json:"percent"`
	// Exists: it can be read.
	Exists bool `json:"exists"`
}

func (s *Server) service(ctx context.Context, namespace, name string) (*service, []string, error) {
	if s.Namespace != "" && namespace != s.Namespace {
		return nil, nil, fmt.Errorf("this page shows namespace %s; to see others: kubectl cdevents dashboard -n %s",
			s.Namespace, namespace)
	}
	r := s.reporter()
	h, err := r.History(ctx, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	out := &service{History: h, Runs: []run{}, Findings: []advice.Finding{}}
	var notes []string
	state, err := r.State(ctx, namespace, name)
	switch {
	case errors.Is(err, reader.ErrNotFound):
		out.Gone, out.Service = true, report.Service{Namespace: namespace, Name: name, Ready: "Gone"}
	case err != nil:
		return nil, nil, err
	default:
		out.Service = *state
	}
	if !out.Gone && len(out.Gates) > 0 {
		reports, err := r.GateRuns(ctx, namespace, name)
		if err != nil {
			notes = append(notes, "gates are not shown: "+err.Error())
		}
		for _, g := range reports {
			out.Runs = append(out.Runs, s.run(g, r.Clock.Now))
		}
	}
	revisions, err := s.live.Revisions(ctx, namespace, name)
	if err != nil {
		notes = append(notes, "Revisions are shown without their state: "+err.Error())
	}
	out.Moments = timeline.Moments(h.Timeline, s.others(h, out), out.Traffic)
	out.Revisions = lanes(out.Moments, revisions, out.Traffic)
	if d, err := r.Diagnose(ctx, namespace, []string{"service/" + name}); err == nil {
		for _, f := range d.Findings {
			if news(f) && f.Kind != v1alpha1.GateKind.Kind {
				out.Findings = append(out.Findings, f)
			}
		}
	}
	return out, notes, nil
}

// others are what happened beside the ledger's events: runs of gates, and splits that were seen since the page is open.
// The history gets the latter, too.
func (s *Server) others(h *report.History, of *service) []timeline.Moment {
	var out []timeline.Moment
	for _, e := range h.Events {
		if e.Sequence == 0 {
			out = append(out, timeline.Moment{
				Time: e.Time, Name: nameOf(e.Text), Text: e.Text, Outcome: cmp.Or(e.Outcome, timeline.Plain),
			})
		}
	}
	for _, r := range of.Runs {
		if r.Run == nil || len(r.Run.Split) == 0 {
			continue
		}
		began := timeline.Moment{
			Time:    r.Run.StartTime.Time,
			Name:    "gate began",
			Text:    fmt.Sprintf("gate %s began to judge %s", r.Name, r.Run.Canary.Name),
			Split:   splitOf(r.Run),
			Outcome: timeline.Plain,
		}
		if i := slices.IndexFunc(
			out,
			func(m timeline.Moment) bool { return m.Text == began.Text && m.Time.Equal(began.Time) },
		); i >= 0 {
			out[i] = began
			continue
		}
		out = append(out, began)
		h.Events = append(h.Events, report.Event{Event: timeline.Event{Time: began.Time, Text: began.Text}})
	}
	for _, seen := range s.seen.splits(of.Namespace, of.Name) {
		// The ledger tells of the same change, unless steps were merged or it may not be read.
		told := slices.ContainsFunc(h.Timeline.Events, func(e timeline.Event) bool {
			return e.MovesTraffic() && slices.Equal(e.Split, seen.Split) && e.Time.Sub(seen.Time).Abs() < time.Minute
		})
		if !told {
			out = append(out, seen)
			h.Events = append(h.Events, report.Event{Event: timeline.Event{Time: seen.Time, Text: seen.Text}})
		}
	}
	slices.SortStableFunc(h.Events, func(a, b report.Event) int { return a.Time.Compare(b.Time) })
	return out
}

// nameOf is a short name for what is no event.
func nameOf(text string) string {
	words := strings.Fields(text)
	switch {
	case len(words) > 2 && words[0] == "gate":
		return "gate " + words[2] // began, judged
	case len(words) > 0 && words[0] == "Revision":
		return "revision created"
	}
	return text
}

// splitOf returns the split that a run judges.
func splitOf(run *v1alpha1.GateRun) lifecycle.Split {
	shares := make([]lifecycle.Share, 0, len(run.Split))
	for _, share := range run.Split {
		shares = append(shares, lifecycle.Share(share))
	}
	return lifecycle.NewSplit(shares)
}

// lanes returns the Revisions to show, newest first. Those that never appear in the time line and have no traffic come
// last.
func lanes(moments []timeline.Moment, exist []servingv1.Revision, now lifecycle.Split) []revision {
	all := map[string]*revision{}
	order := map[string]int{}
	of := func(name string) *revision {
		if all[name] == nil {
			all[name] = &revision{Name: name}
		}
		return all[name]
	}
	for i, m := range moments {
		for _, s := range m.Split {
			of(s.Revision)
			if _, has := order[s.Revision]; !has {
				order[s.Revision] = i
			}
		}
	}
	for _, s := range now {
		of(s.Revision).Percent = s.Percent
	}
	for i := range exist {
		e := &exist[i]
		x := of(e.Name)
		x.Exists, x.Created, x.Ready = true, &e.CreationTimestamp.Time, "Unknown"
		if c := e.Status.GetCondition(apis.ConditionReady); c != nil {
			x.Ready, x.Reason = string(c.Status), c.Reason
		}
		if len(e.Spec.Containers) > 0 {
			x.Image = e.Spec.Containers[0].Image
		}
	}
	out := make([]revision, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	slices.SortStableFunc(out, func(a, b revision) int {
		if a.Created != nil && b.Created != nil {
			return cmp.Or(b.Created.Compare(*a.Created), strings.Compare(b.Name, a.Name))
		}
		return cmp.Or(cmp.Compare(order[b.Name], order[a.Name]), strings.Compare(b.Name, a.Name))
	})
	return out
}
