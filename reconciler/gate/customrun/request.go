// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// InvalidSpec is a reason of gates, too.
//
//reasons:table CanaryGate/Valid CanaryGate/TemplateApplied CustomRun/Succeeded
const (
	// InvalidSpec: the gate is not valid, by itself or with the params. Correct the field that the message names.
	InvalidSpec = "InvalidSpec"
)

// Reasons why a request is invalid. A retry would end in the same way.
//
//reasons:table CustomRun/Succeeded
const (
	// InvalidReference: customRef or customSpec has a wrong apiVersion or kind. Use those that the message names.
	InvalidReference = "InvalidReference"
	// InvalidParams: a param is unknown, specified twice, or has a value that is not valid. Correct it.
	InvalidParams = "InvalidParams"
	// GateNotFound: the CanaryGate does not exist in this namespace. Create it, or name another one.
	GateNotFound = "GateNotFound"
	// GateSuspended: the CanaryGate is suspended. Set its spec.suspend to false.
	GateSuspended = "GateSuspended"
	// WorkspaceNotSupported: gates do not support workspaces. Remove them.
	WorkspaceNotSupported = "CustomRunWorkspaceNotSupported"
)

// maxQuoted limits how much of a param a message quotes, in bytes.
const maxQuoted = 100

// Problem describes an invalid request.
type Problem struct{ Reason, Message string }

func invalid(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Request is the request of a CustomRun.
type Request struct {
	// Gate is the name of the CanaryGate, or empty.
	Gate   string
	spec   *v1alpha1.CanaryGateSpec
	change []func(*v1alpha1.CanaryGateSpec)
}

// params maps each param to the function that applies it to a spec.
var params = map[string]func(a *Request, value string) error{
	"gate": func(a *Request, v string) error {
		if a.Gate != "" && a.Gate != v {
			return fmt.Errorf("customRef already names gate %q; specify only one of them", a.Gate)
		}
		a.Gate = v
		return nil
	},
	"service":  name(func(s *v1alpha1.CanaryGateSpec, v string) { s.Service = v }),
	"canary":   name(func(s *v1alpha1.CanaryGateSpec, v string) { s.Canary = v }),
	"baseline": name(func(s *v1alpha1.CanaryGateSpec, v string) { s.Baseline = v }),
	"fail-on": func(a *Request, v string) error {
		var verdicts []verdict.Verdict
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				verdicts = append(verdicts, verdict.Verdict(part))
			}
		}
		if len(verdicts) == 0 {
			return fmt.Errorf("it must name verdicts, separated by commas, such as Fail,Error,Inconclusive")
		}
		a.set(func(s *v1alpha1.CanaryGateSpec) { s.FailOn = verdicts })
		return nil
	},
	"dry-run": func(a *Request, v string) error {
		dry, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("it must be true or false")
		}
		a.set(func(s *v1alpha1.CanaryGateSpec) { s.DryRun = dry })
		return nil
	},
	"min-requests": func(a *Request, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("it must be a whole number of at least 1: the number of requests that each side needs")
		}
		a.set(func(s *v1alpha1.CanaryGateSpec) {
			s.Minimum = group(s.Minimum)
			s.Minimum.CanaryRequests, s.Minimum.BaselineRequests = &n, &n
		})
		return nil
	},
	"timeout": func(a *Request, v string) error {
		d, err := v1alpha1.ParseDuration(v)
		switch {
		case err != nil:
			return fmt.Errorf("it must be a duration; %w", err)
		case d.Duration <= 0:
			return fmt.Errorf("it must be a duration longer than 0, such as 20m")
		}
		a.set(func(s *v1alpha1.CanaryGateSpec) {
			s.Schedule = group(s.Schedule)
			s.Schedule.Timeout = &d
		})
		return nil
	},
}

// name is a param that is used verbatim. The validation of the whole spec checks it.
func name(set func(*v1alpha1.CanaryGateSpec, string)) func(*Request, string) error {
	return func(a *Request, v string) error {
		a.set(func(s *v1alpha1.CanaryGateSpec) { set(s, v) })
		return nil
	}
}

func group[T any](g *T) *T {
	if g == nil {
		return new(T)
	}
	return g
}

func (a *Request) set(change func(*v1alpha1.CanaryGateSpec)) { a.change = append(a.change, change) }

// Request parses the request. An empty param counts as absent, because a pipeline may pass on
// an empty param of its caller.
func (r *Run) Request() (*Request, *Problem) {
	a := &Request{}
	if p := v1alpha1.UnreadIn(r.Unread, "spec"); p != nil {
		return nil, invalid(InvalidSpec, "%v", p)
	}
	if p := r.reference(); p != nil {
		return nil, p
	}
	if len(r.Spec.Workspaces) > 0 {
		return nil, invalid(WorkspaceNotSupported, "gates do not support workspaces; remove them")
	}
	switch ref, own := r.Spec.CustomRef, r.Spec.CustomSpec; {
	case ref != nil:
		a.Gate = ref.Name
	case own != nil:
		a.spec = &v1alpha1.CanaryGateSpec{}
		if len(own.Spec) > 0 {
			// As strict as the API server with a gate: the names of fields have upper and lower case.
			unknown, err := kjson.UnmarshalStrict(own.Spec, a.spec)
			if err == nil && len(unknown) > 0 {
				err = unknown[0]
			}
			if err != nil {
				return nil, invalid(InvalidSpec, "spec.customSpec.spec is not the spec of a CanaryGate: %s", err)
			}
		}
	}
	seen := map[string]bool{}
	for _, p := range r.Spec.Params {
		take, known := params[p.Name]
		var value string
		switch err := json.Unmarshal(p.Value, &value); {
		case !known:
			return nil, unknownParam(p.Name)
		case err != nil:
			return nil, invalid(InvalidParams, "param %q is %s; it must be a string", p.Name,
				sanitize.Truncate(string(p.Value), maxQuoted))
		case seen[p.Name]:
			return nil, invalid(InvalidParams, "param %q is specified twice", p.Name)
		}
		if seen[p.Name] = true; value == "" {
			continue
		}
		if err := take(a, value); err != nil {
			return nil, wrongParam(p.Name, value, err)
		}
	}
	if a.spec != nil && a.Gate != "" {
		return nil, invalid(InvalidParams,
			"param \"gate\" names %q, but customSpec contains a gate; specify only one of them", a.Gate)
	}
	if a.spec == nil && a.Gate == "" {
		a.spec = &v1alpha1.CanaryGateSpec{}
	}
	return a, nil
}

// CheckParam returns what is wrong with a param, whatever the gate is.
func CheckParam(name, value string) *Problem {
	take, known := params[name]
	if !known {
		return unknownParam(name)
	}
	if value == "" {
		return nil
	}
	if err := take(&Request{}, value); err != nil {
		return wrongParam(name, value, err)
	}
	return nil
}

func unknownParam(name string) *Problem {
	return invalid(InvalidParams, "param %q does not exist; the params are %s", name, strings.Join(slices.Sorted(maps.Keys(params)), ", "))
}

func wrongParam(name, value string, err error) *Problem {
	return invalid(InvalidParams, "param %q is %q: %s", name, value, err)
}

// reference returns what is wrong with the reference, unless it is a gate of this version.
func (r *Run) reference() *Problem {
	version, kind := v1alpha1.SchemeGroupVersion.String(), v1alpha1.GateKind.Kind
	check := func(field, ofVersion, ofKind string) *Problem {
		if ofVersion == version && ofKind == kind {
			return nil
		}
		return invalid(InvalidReference, "spec.%s has apiVersion %q and kind %q; it must have apiVersion %q and kind %q",
			field, ofVersion, ofKind, version, kind)
	}
	if ref := r.Spec.CustomRef; ref != nil {
		return check("customRef", ref.APIVersion, ref.Kind)
	}
	if own := r.Spec.CustomSpec; own != nil {
		return check("customSpec", own.APIVersion, own.Kind)
	}
	return nil
}

// Service returns the name of the Service to judge, or empty. gate is the referenced
// CanaryGate, or nil.
func (a *Request) Service(gate *v1alpha1.CanaryGate) string { return a.asked(gate).Service }

// Template returns the name of the template to judge by, or empty. gate is the referenced CanaryGate, or nil.
func (a *Request) Template(gate *v1alpha1.CanaryGate) string { return a.asked(gate).Template() }

// asked is the spec of the gate or the embedded one, with the params applied, whether it is valid or not.
func (a *Request) asked(gate *v1alpha1.CanaryGate) *v1alpha1.CanaryGateSpec {
	spec := &v1alpha1.CanaryGateSpec{}
	switch {
	case a.spec != nil:
		spec = a.spec.DeepCopy()
	case gate != nil:
		spec = gate.Spec.DeepCopy()
	}
	for _, change := range a.change {
		change(spec)
	}
	return spec
}

// Suspended returns a problem if the referenced CanaryGate is suspended. It may be nil.
func (a *Request) Suspended(gate *v1alpha1.CanaryGate) *Problem {
	if gate == nil || !gate.Spec.Suspend {
		return nil
	}
	return invalid(GateSuspended, "CanaryGate %q is suspended, so no run of it begins; set its spec.suspend to false", a.Gate)
}

// Spec returns that of the gate or the embedded one, with the params and the template applied, and what came of the
// template. Its defaults are set when the run begins: some depend on the time that the CustomRun has.
func (a *Request) Spec(
	ctx context.Context,
	gate *v1alpha1.CanaryGate,
	template *v1alpha1.ClusterCanaryGateTemplate,
) (*v1alpha1.CanaryGateSpec, *v1alpha1.GateTemplateUse, *Problem) {
	switch {
	case a.spec != nil:
	case gate == nil:
		return nil, nil, invalid(GateNotFound, "CanaryGate %q does not exist in this namespace", a.Gate)
	default:
		if p := v1alpha1.UnreadIn(gate.Unread, "spec"); p != nil {
			return nil, nil, invalid(InvalidSpec, "the gate is not valid: %v", p)
		}
		if p := a.Suspended(gate); p != nil {
			return nil, nil, p
		}
	}
	spec := a.asked(gate)
	if spec.Service == "" {
		return nil, nil, invalid(InvalidParams,
			"the Service to judge is not specified; refer to a CanaryGate, or set param \"service\"")
	}
	if err := spec.Validate(ctx); err != nil {
		return nil, nil, invalid(InvalidSpec, "the gate is not valid with these params: %s", err)
	}
	return Apply(ctx, spec, template)
}
