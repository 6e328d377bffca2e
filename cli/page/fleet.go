// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Numbers of rows that are sent at most, unless the page asks for more.
const (
	rows     = 100
	findings = 12
)

// fleet is the view of all Services.
type fleet struct {
	// Counts are over all Services, whatever is searched for.
	Counts   counts `json:"counts"`
	Services []row  `json:"services"`
	// Matching is how many Services match; not all of them may be sent.
	Matching int `json:"matching"`
	// Namespaces: there are Services of several.
	Namespaces   bool                 `json:"namespaces"`
	Sources      []report.Source      `json:"sources"`
	Environments []report.Environment `json:"environments"`
	// Findings are what does not work, the worst first.
	Findings     []advice.Finding `json:"findings"`
	MoreFindings int              `json:"moreFindings,omitempty"`
}

type counts struct {
	All    int `json:"all"`
	Moving int `json:"moving"`
	Ailing int `json:"ailing"`
	// Pending counts those with pending events. It is absent if the user may not read the ledger.
	Pending *int `json:"pending,omitempty"`
}

// row is a Service in the fleet.
type row struct {
	report.Service
	// Moving: a rollout is under way.
	Moving bool `json:"moving,omitempty"`
	// Ailing: something about it needs attention.
	Ailing bool `json:"ailing,omitempty"`
}

func (s *Server) fleet(ctx context.Context, q url.Values) (*fleet, []string, error) {
	r := s.reporter()
	all, err := r.Fleet(ctx, s.Namespace)
	if err != nil {
		return nil, nil, err
	}
	out := &fleet{Services: []row{}, Sources: all.Sources, Environments: all.Environments, Findings: []advice.Finding{}}
	show := rows
	if n, err := strconv.Atoi(q.Get("show")); err == nil && n > 0 {
		show = n
	}
	pending, known := 0, false
	for _, one := range all.Services {
		x := row{Service: one, Moving: moving(one), Ailing: ailing(one)}
		waits := one.Pending != nil && *one.Pending > 0
		known = known || one.Pending != nil
		out.Counts.All++
		add(&out.Counts.Moving, x.Moving)
		add(&out.Counts.Ailing, x.Ailing)
		add(&pending, waits)
		out.Namespaces = out.Namespaces || one.Namespace != all.Services[0].Namespace
		wanted := map[string]bool{"": true, "moving": x.Moving, "ailing": x.Ailing, "pending": waits}[q.Get("only")]
		if !wanted ||
			!strings.Contains(strings.ToLower(one.Namespace+"/"+one.Name), strings.ToLower(strings.TrimSpace(q.Get("q")))) {
			continue
		}
		if out.Matching++; len(out.Services) < show {
			out.Services = append(out.Services, x)
		}
	}
	if known {
		out.Counts.Pending = &pending
	}
	notes := all.Notes
	d, err := r.Diagnose(ctx, s.Namespace, nil)
	if err != nil {
		notes = append(notes, "what needs attention is not shown: "+err.Error())
		d = &report.Diagnosis{}
	}
	for _, f := range d.Findings {
		switch {
		case !news(f):
		case len(out.Findings) == findings:
			out.MoreFindings++
		default:
			out.Findings = append(out.Findings, f)
		}
	}
	return out, notes, nil
}

// add counts one if it is so.
func add(to *int, so bool) {
	if so {
		*to++
	}
}

// news reports whether a finding is to be shown beside everything else. A gate that still judges is shown as such.
func news(f advice.Finding) bool {
	return f.State != advice.Works && (f.State != advice.Waiting || f.Kind != v1alpha1.GateKind.Kind)
}

// moving reports whether a rollout is under way: a split, or a gate that judges.
func moving(s report.Service) bool {
	return len(s.Traffic) > 1 ||
		slices.ContainsFunc(s.Gates, func(g report.Gate) bool { return g.Verdict == string(verdict.Running) })
}

// ailing reports whether a Service is not ready, or has a gate that cannot judge, or a canary that should not have
// traffic, or of which nothing is known.
func ailing(s report.Service) bool {
	return s.Ready == "False" || slices.ContainsFunc(s.Gates, func(g report.Gate) bool {
		bad := slices.Contains([]string{string(verdict.Fail), string(verdict.Error), string(verdict.Inconclusive)}, g.Verdict)
		return g.Ready == "False" ||
			bad && slices.ContainsFunc(s.Traffic, func(t lifecycle.Share) bool { return t.Revision == g.Canary })
	})
}
