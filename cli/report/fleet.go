// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/lifecycle/traffic"
)

// Fleet is what there is in a namespace, or in all.
type Fleet struct {
	Services     []Service     `json:"services"`
	Sources      []Source      `json:"sources"`
	Environments []Environment `json:"environments"`
	// Mode is nil if the user may not read it.
	Mode *Mode `json:"mode,omitempty"`
	// Notes say what is left out, and why.
	Notes []string `json:"notes,omitempty"`
}

// Service is a Knative Service with its traffic, its gates and its pending events.
type Service struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Ready     string          `json:"ready"`
	Reason    string          `json:"reason,omitempty"`
	URL       string          `json:"url,omitempty"`
	Traffic   lifecycle.Split `json:"traffic,omitempty"`
	Gates     []Gate          `json:"gates,omitempty"`
	Ledger
}

// Ledger is what the ledger holds. It is empty if the user may not read it.
type Ledger struct {
	// Pending is nil if it is not known.
	Pending       *int64       `json:"pending,omitempty"`
	PendingFor    []PendingFor `json:"pendingFor,omitempty"`
	LastEvent     string       `json:"lastEvent,omitempty"`
	LastEventTime *time.Time   `json:"lastEventTime,omitempty"`
	// Cluster is the reason of an incident of the stateful cluster that goes on.
	Cluster string `json:"cluster,omitempty"`
}

// PendingFor is what is pending for one source.
type PendingFor struct {
	Source string    `json:"source"`
	Events int64     `json:"events"`
	Since  time.Time `json:"since"`
}

// Gate is a gate with its newest verdict.
type Gate struct {
	Name      string `json:"name"`
	Ready     string `json:"ready"`
	Reason    string `json:"reason,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Template is the name of the template that it refers to.
	Template string `json:"template,omitempty"`
	Verdict  string `json:"verdict,omitempty"`
	// Reasons of the verdict, most important first.
	Reasons []string `json:"reasons,omitempty"`
	Canary  string   `json:"canary,omitempty"`
	// Missing is the least that a verdict still needs.
	Missing *v1alpha1.GateMissing `json:"missing,omitempty"`
}

// Source is a CDEventSource with what is pending for it.
type Source struct {
	Namespace     string     `json:"namespace"`
	Name          string     `json:"name"`
	Sink          string     `json:"sink,omitempty"`
	Ready         string     `json:"ready"`
	Delivering    string     `json:"delivering"`
	Reason        string     `json:"reason,omitempty"`
	Pending       int64      `json:"pending"`
	OldestPending *time.Time `json:"oldestPending,omitempty"`
	LastDelivery  *time.Time `json:"lastDelivery,omitempty"`
}

// Environment is an environment of the ledger.
type Environment struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Ledger
}

// Fleet reads a namespace, or all if it is empty. What the user may not read is left out, with a note;
// it is an error if nothing is left.
func (r *Reporter) Fleet(ctx context.Context, namespace string) (*Fleet, error) {
	out := &Fleet{Services: []Service{}, Sources: []Source{}, Environments: []Environment{}}
	services, noServices := r.Services(ctx, namespace)
	sources, noSources := r.Sources(ctx, namespace)
	if noSources != nil && (noServices != nil || errors.Is(noSources, reader.ErrNotInstalled)) {
		return nil, noSources
	}
	gates, noGates := r.Gates(ctx, namespace)
	entries, noLedger := r.Ledger(ctx, namespace)
	serverless, noMode := r.Serverless(ctx)
	for _, problem := range []struct {
		err     error
		without string
	}{
		{noServices, "Services"},
		{noSources, "sources"},
		{noGates, "gates"},
		{noLedger, "what is pending for each Service, and environments"},
		{noMode, "whether the controller sleeps"},
	} {
		if problem.err == nil {
			continue
		}
		if !errors.Is(problem.err, reader.ErrForbidden) && !errors.Is(problem.err, reader.ErrNotInstalled) {
			return nil, problem.err
		}
		out.Notes = append(out.Notes, "not shown: "+problem.without+"; "+problem.err.Error())
	}
	if noMode == nil {
		out.Mode = modeOf(serverless, entries, noLedger == nil, r.Clock.Now)
	}
	names := r.SourceNames(ctx, namespace, sources)
	byUID := map[types.UID]*v1alpha1.CDEventSubject{}
	for i := range entries {
		entry := &entries[i]
		byUID[entry.Spec.UID] = entry
		switch {
		case r.selects(): // neither an environment nor what is gone has labels here
		case !IsService(entry):
			out.Environments = append(out.Environments, Environment{
				Kind: entry.Spec.Kind, Namespace: entry.Spec.Namespace, Name: entry.Spec.Name, Ledger: ledgerOf(entry, names),
			})
		case entry.Status.Removed:
			out.Services = append(out.Services, Service{
				Namespace: entry.Spec.Namespace, Name: entry.Spec.Name, Ready: "Gone", Ledger: ledgerOf(entry, names),
			})
		}
	}
	judging := map[types.NamespacedName][]Gate{}
	for i := range gates {
		of := types.NamespacedName{Namespace: gates[i].Namespace, Name: gates[i].Spec.Service}
		judging[of] = append(judging[of], gateOf(&gates[i]))
	}
	for i := range services {
		if !r.selected(services[i].Labels) {
			continue
		}
		s := serviceOf(&services[i])
		s.Gates = judging[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
		if noLedger == nil {
			s.Ledger = ledgerOf(byUID[services[i].UID], names)
		}
		out.Services = append(out.Services, s)
	}
	for i := range sources {
		if !r.selected(sources[i].Labels) {
			continue
		}
		out.Sources = append(out.Sources, sourceOf(&sources[i]))
	}
	slices.SortStableFunc(out.Services, func(a, b Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(out.Environments, func(a, b Environment) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// SourceNames returns how to call each source. The operator's sources, in the controller's namespace, get events
// of other namespaces too; a user may not be allowed to read them.
func (r *Reporter) SourceNames(
	ctx context.Context,
	namespace string,
	sources []v1alpha1.CDEventSource,
) func(types.UID) string {
	names := map[types.UID]string{}
	add := func(all []v1alpha1.CDEventSource) {
		for _, s := range all {
			if names[s.UID] = s.Name; s.Namespace != namespace {
				names[s.UID] = s.Namespace + "/" + s.Name
			}
		}
	}
	if namespace != "" && namespace != r.Clock.System {
		if operators, err := r.Sources(ctx, r.Clock.System); err == nil {
			add(operators)
		}
	}
	add(sources)
	return func(uid types.UID) string {
		if name, ok := names[uid]; ok {
			return name
		}
		return "another source"
	}
}

// State returns what Fleet says of one Service.
func (r *Reporter) State(ctx context.Context, namespace, name string) (*Service, error) {
	service, err := r.Service(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	out := serviceOf(service)
	if gates, err := r.Gates(ctx, namespace); err == nil {
		for i := range gates {
			if gates[i].Spec.Service == name {
				out.Gates = append(out.Gates, gateOf(&gates[i]))
			}
		}
	}
	if entry, err := r.Entry(ctx, "Service", service.UID); err == nil {
		sources, _ := r.Sources(ctx, namespace) // without a right to read them, they have no names
		out.Ledger = ledgerOf(entry, r.SourceNames(ctx, namespace, sources))
	}
	return &out, nil
}

func serviceOf(s *servingv1.Service) Service {
	out := Service{Namespace: s.Namespace, Name: s.Name, Ready: "Unknown"}
	if c := s.Status.GetCondition(apis.ConditionReady); c != nil {
		out.Ready, out.Reason = string(c.Status), c.Reason
	}
	if s.Status.URL != nil {
		out.URL = s.Status.URL.String()
	}
	out.Traffic = traffic.Split(s.Status.Traffic)
	return out
}

func gateOf(g *v1alpha1.CanaryGate) Gate {
	out := Gate{Name: g.Name, Ready: "Unknown", Suspended: g.Spec.Suspend, Template: g.Spec.Template()}
	if c := g.Status.GetCondition(apis.ConditionReady); c != nil {
		out.Ready, out.Reason = string(c.Status), c.Reason
	}
	if l := g.Status.Latest; l != nil {
		out.Verdict, out.Reasons, out.Canary, out.Missing = string(l.Verdict), l.Reasons, l.Canary, l.Missing
	}
	return out
}

func sourceOf(s *v1alpha1.CDEventSource) Source {
	out := Source{
		Namespace: s.Namespace, Name: s.Name, Sink: sanitize.WithoutCredentials(s.Status.SinkURI.String()), Ready: "Unknown",
		Delivering: "Unknown", Pending: s.Status.Pending,
	}
	if c := s.Status.GetCondition(v1alpha1.SourceConditionDelivering); c != nil {
		if out.Delivering = string(c.Status); !c.IsTrue() {
			out.Reason = c.Reason
		}
	}
	if c := s.Status.GetCondition(v1alpha1.SourceConditionReady); c != nil {
		if out.Ready = string(c.Status); !c.IsTrue() {
			out.Reason = c.Reason
		}
	}
	if at := s.Status.OldestPending; at != nil {
		out.OldestPending = utc(at.Time)
	}
	if at := s.Status.LastDelivery; at != nil {
		out.LastDelivery = utc(at.Time)
	}
	return out
}

// utc returns a time as programs read it: the same on each machine.
func utc(at time.Time) *time.Time {
	at = at.UTC()
	return &at
}

// ledgerOf sums up an entry. Without one, nothing has happened since the controller first saw the object.
func ledgerOf(s *v1alpha1.CDEventSubject, names func(types.UID) string) Ledger {
	none := int64(0)
	if s == nil {
		return Ledger{Pending: &none}
	}
	st := &s.Status
	out := Ledger{Pending: &st.Pending, LastEvent: timeline.Short(lifecycle.Type(st.LastEvent))}
	if st.LastEventTime != nil {
		out.LastEventTime = utc(st.LastEventTime.Time)
	}
	if c := meta.FindStatusCondition(st.Conditions, "ClusterTroubled"); c != nil && c.Status == metav1.ConditionTrue {
		out.Cluster = c.Reason
	}
	for _, j := range st.Journal {
		for _, to := range j.Recipients {
			if j.Sequence <= st.Acknowledged[to.Source] {
				continue
			}
			name := names(to.Source)
			i := slices.IndexFunc(out.PendingFor, func(p PendingFor) bool { return p.Source == name })
			if i < 0 {
				i, out.PendingFor = len(out.PendingFor), append(out.PendingFor, PendingFor{Source: name, Since: j.Time.UTC()})
			}
			out.PendingFor[i].Events++
		}
	}
	slices.SortFunc(out.PendingFor, func(a, b PendingFor) int { return strings.Compare(a.Source, b.Source) })
	return out
}

// IsService reports whether an entry is about a Knative Service. Another kind may have the same name.
func IsService(s *v1alpha1.CDEventSubject) bool {
	return s.Spec.Kind == "Service" && strings.HasPrefix(s.Spec.APIVersion, servingv1.SchemeGroupVersion.Group+"/")
}
