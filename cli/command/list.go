// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

func (e *env) list() *cobra.Command {
	var s choice
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List Services with their traffic, gates and pending events, sources and environments",
		Args:    cobra.NoArgs,
		Example: "  kubectl cdevents list -n shop\n" +
			"  kubectl cdevents list -A -l team=checkout -w\n" +
			"  kubectl cdevents list -A -o jsonpath='{range .services[?(@.pending>0)]}{.namespace}/{.name}{\"\\n\"}{end}'",
	}
	s.addAll(c)
	s.addSelector(c)
	s.addWatch(c)
	o := addOutput(c, formatName, formatWide)
	fleet := func(f *report.Fleet, namespace string) answer {
		return answer{
			kind: "List", value: f, names: fleetNames(f),
			show: func() { e.showFleet(f, namespace, o.is(formatWide)) },
		}
	}
	c.RunE = e.answers(o, &s, func(ctx context.Context, r *report.Reporter, namespace string, _ []string) (answer, error) {
		f, err := r.Fleet(ctx, namespace)
		if err != nil {
			return answer{}, err
		}
		out := fleet(f, namespace)
		out.news = func(before any) (answer, bool) {
			was, _ := before.(*report.Fleet)
			news, has := f.News(was)
			return fleet(news, namespace), has
		}
		return out, nil
	})
	return c
}

// fleetNames returns what is listed as kubectl names it.
func fleetNames(f *report.Fleet) []string {
	var out []string
	for _, s := range f.Services {
		out = append(out, serviceName(s.Name))
	}
	for _, s := range f.Sources {
		out = append(out, sourceName(s.Name))
	}
	for _, s := range f.Environments {
		out = append(out, strings.ToLower(s.Kind)+"/"+s.Name)
	}
	return out
}

func serviceName(name string) string { return "service.serving.knative.dev/" + name }
func sourceName(name string) string  { return "cdeventsource." + v1alpha1.GroupName + "/" + name }
func gateName(name string) string    { return "canarygate." + v1alpha1.GroupName + "/" + name }

func (e *env) showFleet(f *report.Fleet, namespace string, wide bool) {
	shown := 0
	for _, t := range []*screen.Table{
		e.serviceTable(f, wide), e.sourceTable(f, wide), e.environmentTable(f), e.modeTable(f.Mode),
	} {
		if t.Empty() {
			continue
		}
		if shown > 0 {
			e.Screen.Printf("\n")
		}
		if namespace != "" {
			t.Hide("NAMESPACE")
		}
		if wide {
			t.Least = nil
		}
		e.Screen.Table(t)
		shown++
	}
	if shown == 0 && len(f.Notes) == 0 {
		if namespace == "" {
			e.note("No Services, sources or environments found")
		} else {
			e.note("No Services, sources or environments found in namespace %s", namespace)
		}
	}
	for _, n := range f.Notes {
		e.note("note: %s", n)
	}
}

func (e *env) serviceTable(f *report.Fleet, wide bool) *screen.Table {
	t := &screen.Table{
		Titles: []string{"NAMESPACE", "SERVICE", "READY", "TRAFFIC", "GATE", "PENDING", "LAST EVENT", "URL"},
		Least:  []int{8, 8, 5, 15, 10, 10, screen.Optional, 0},
	}
	for _, s := range f.Services {
		url := ""
		if wide {
			url = s.URL
		}
		t.Add(
			screen.Text(s.Namespace),
			screen.Text(s.Name),
			serviceReadiness(s),
			screen.Text(s.Traffic.String()),
			gateCell(s.Gates),
			e.pendingCell(s.Ledger),
			screen.Text(e.last(s.Ledger)),
			screen.Text(url),
		)
	}
	return t
}

func (e *env) sourceTable(f *report.Fleet, wide bool) *screen.Table {
	t := &screen.Table{
		Titles: []string{"NAMESPACE", "SOURCE", "SINK", "READY", "DELIVERING", "PENDING", "OLDEST", "LAST DELIVERY"},
		Least:  []int{8, 8, 12, 5, 10, 0, 0, screen.Optional},
	}
	for _, s := range f.Sources {
		last := ""
		if wide && s.LastDelivery != nil {
			last = e.age(*s.LastDelivery)
		}
		delivering := readiness(s.Delivering, "")
		if s.Ready == "True" {
			delivering = readiness(s.Delivering, s.Reason)
		}
		oldest := ""
		if s.OldestPending != nil {
			oldest = e.age(*s.OldestPending)
		}
		ready := readiness(s.Ready, s.Reason)
		t.Add(screen.Text(s.Namespace), screen.Text(s.Name), screen.Text(s.Sink), ready, delivering,
			screen.Text(fmt.Sprint(s.Pending)), screen.Text(oldest), screen.Text(last))
	}
	return t
}

func (e *env) environmentTable(f *report.Fleet) *screen.Table {
	t := &screen.Table{
		Titles: []string{"NAMESPACE", "KIND", "ENVIRONMENT", "PENDING", "LAST EVENT"}, Least: []int{8, 0, 8, 12, 12},
	}
	for _, s := range f.Environments {
		t.Add(screen.Text(s.Namespace), screen.Text(s.Kind), screen.Text(s.Name), e.pendingCell(s.Ledger),
			screen.Text(e.last(s.Ledger)))
	}
	return t
}

// modeTable is empty unless the installation is in the serverless mode.
func (e *env) modeTable(m *report.Mode) *screen.Table {
	t := &screen.Table{
		Titles: []string{"MODE", "CONTROLLER", "DOORBELL", "LAST RING", "OWED"}, Least: []int{0, 20, 7, 0, 10},
	}
	if m == nil || m.Name == report.Resident {
		return t
	}
	controller := m.Controller
	if m.ControllerSince != nil {
		controller += fmt.Sprintf(" (%s ago: %s)", e.age(*m.ControllerSince), m.Why)
	}
	doorbell := screen.Cell{Text: m.Doorbell, Style: screen.Good}
	if m.Doorbell != advice.DoorbellRunning {
		doorbell.Style = screen.Bad
	}
	rang, owed := "", ""
	if m.LastRing != nil {
		rang = e.age(*m.LastRing) + " ago"
	}
	if o := m.Owed; o != nil {
		owed = fmt.Sprintf("retries: %d, limits: %d", o.Retries, o.Limits)
		if o.Next != nil {
			owed += ", next at " + e.stamp(*o.Next)
		}
	}
	t.Add(screen.Text(m.Name), screen.Text(controller), doorbell, screen.Text(rang), screen.Text(owed))
	return t
}

// readiness shows a condition's status, with the reason if it is not True.
func readiness(status, reason string) screen.Cell {
	switch {
	case status == "True":
		return screen.Cell{Text: status, Style: screen.Good}
	case reason != "":
		status += ": " + reason
	}
	if strings.HasPrefix(status, "False") {
		return screen.Cell{Text: status, Style: screen.Bad}
	}
	return screen.Cell{Text: status, Style: screen.Unsure}
}

// serviceReadiness also says what is wrong with the cluster of a Service that Knative takes for ready.
func serviceReadiness(s report.Service) screen.Cell {
	out := readiness(s.Ready, s.Reason)
	if s.Cluster != "" {
		out.Text += ", cluster: " + s.Cluster
		if out.Style == screen.Good {
			out.Style = screen.Unsure
		}
	}
	return out
}

func gateCell(gates []report.Gate) screen.Cell {
	var parts []string
	style := screen.Plain
	for _, g := range gates {
		text := g.Verdict
		switch {
		case g.Ready == "False":
			text, style = g.Reason, screen.Bad
		case g.Verdict == "":
			text = "no run yet"
		case style == screen.Plain:
			style = verdictStyle(g.Verdict)
		}
		if g.Suspended {
			text += ", suspended"
		}
		name := g.Name
		if g.Template != "" {
			name += ", template " + g.Template
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", text, name))
	}
	return screen.Cell{Text: strings.Join(parts, ", "), Style: style}
}

func verdictStyle(v string) screen.Style {
	switch v {
	case "Pass":
		return screen.Good
	case "Fail", "Error":
		return screen.Bad
	case "Warn", "Inconclusive", "Running":
		return screen.Unsure
	}
	return screen.Plain
}

// pendingCell says how many events are pending for which source.
func (e *env) pendingCell(s report.Ledger) screen.Cell {
	switch {
	case s.Pending == nil:
		return screen.Text("")
	case *s.Pending == 0:
		return screen.Text("0")
	}
	var parts []string
	for _, p := range s.PendingFor {
		parts = append(parts, fmt.Sprintf("%d to %s for %s", p.Events, p.Source, e.age(p.Since)))
	}
	return screen.Cell{Text: strings.Join(parts, ", "), Style: screen.Unsure}
}

func (e *env) last(s report.Ledger) string {
	if s.LastEventTime == nil {
		return ""
	}
	return fmt.Sprintf("%s %s ago", s.LastEvent, e.age(s.LastEventTime.Round(time.Second)))
}
