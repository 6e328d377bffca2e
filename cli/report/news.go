// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/cli/advice"
)

// gone is the readiness of what does not exist any more.
const gone = "Gone"

// News returns what is not in an earlier list, and what is in the earlier one only, as gone.
func (f *Fleet) News(before *Fleet) (*Fleet, bool) {
	out := &Fleet{}
	out.Services = news(before.Services, f.Services,
		func(s Service) string { return s.Namespace + "/" + s.Name },
		func(s Service) Service { return Service{Namespace: s.Namespace, Name: s.Name, Ready: gone} })
	out.Sources = news(before.Sources, f.Sources,
		func(s Source) string { return s.Namespace + "/" + s.Name },
		func(s Source) Source {
			return Source{Namespace: s.Namespace, Name: s.Name, Ready: gone, Delivering: gone}
		})
	out.Environments = news(before.Environments, f.Environments,
		func(e Environment) string { return e.Kind + "/" + e.Namespace + "/" + e.Name },
		func(e Environment) Environment {
			return Environment{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
		})
	for _, n := range f.Notes {
		if !slices.Contains(before.Notes, n) {
			out.Notes = append(out.Notes, n)
		}
	}
	return out, len(out.Services)+len(out.Sources)+len(out.Environments)+len(out.Notes) > 0
}

// News returns the events that are not in an earlier history, or that were delivered since.
func (h *History) News(before *History) (*History, bool) {
	out := *h
	out.Notes = nil
	// Events are never taken back.
	known := map[string]bool{}
	for _, ev := range before.Events {
		known[text(ev)] = true
	}
	out.Events = slices.DeleteFunc(slices.Clone(h.Events), func(ev Event) bool { return known[text(ev)] })
	if text(h.Dropped) == text(before.Dropped) {
		out.Dropped = nil
	}
	return &out, len(out.Events)+len(out.Dropped) > 0
}

// News returns the findings that an earlier diagnosis does not have, and those that it has only, as working.
func (d *Diagnosis) News(before *Diagnosis) (*Diagnosis, bool) {
	out := &Diagnosis{}
	key := func(f advice.Finding) string {
		return f.Kind + "/" + f.Namespace + "/" + f.Name + "/" + f.What + "/" + f.Reason
	}
	has := map[string]bool{}
	for _, f := range before.Findings {
		has[key(f)] = true
	}
	for _, f := range d.Findings {
		if !has[key(f)] {
			out.Findings = append(out.Findings, f)
		}
	}
	return out, len(out.Findings) > 0
}

// GateNews returns the reports that differ from earlier ones.
func GateNews(before, now []*GateReport) ([]*GateReport, bool) {
	out := news(before, now, func(g *GateReport) string { return g.Name }, nil)
	return out, len(out) > 0
}

// news returns what differs from before by its JSON; what is missing is passed through missing, if that is not nil.
func news[T any](before, now []T, key func(T) string, missing func(T) T) []T {
	var out []T
	was := map[string]string{}
	for _, of := range before {
		was[key(of)] = text(of)
	}
	for _, of := range now {
		if text(of) != was[key(of)] {
			out = append(out, of)
		}
		delete(was, key(of))
	}
	for _, of := range before {
		if _, lost := was[key(of)]; lost && missing != nil {
			if m := missing(of); text(m) != text(of) {
				out = append(out, m)
			}
		}
	}
	return out
}

// text returns the JSON of a report; they all have one.
func text(of any) string {
	raw, err := json.Marshal(of)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
