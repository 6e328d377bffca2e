// SPDX-License-Identifier: Apache-2.0

// Package customrun implements Tekton's contract for custom tasks, as far as gates need
// it. It is pure.
//
// Its invariants are those of the contract:
//   - A run with a completionTime is complete, and never changes.
//   - The write that completes a run also contains its results.
//   - A run is not False before its retries are used up, unless it was judged or a retry
//     would end in the same way.
//   - The request is frozen when the run starts.
//
// The package declares its own types with only the fields that it needs. Tekton's types
// would add a newer Kubernetes and some hundred modules. A test checks them against the
// CustomResourceDefinition of the Tekton release that the tests use.
package customrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Resource is the resource of CustomRuns, and Definition its CustomResourceDefinition.
var (
	Resource   = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}
	Definition = Resource.GroupResource().String()
)

// Run is a CustomRun.
type Run struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`

	// Unread lists the fields that could not be parsed.
	Unread []tolerant.FieldError `json:"-"`
}

// Spec is the request.
type Spec struct {
	CustomRef  *Reference       `json:"customRef,omitempty"`
	CustomSpec *Embedded        `json:"customSpec,omitempty"`
	Params     []Param          `json:"params,omitempty"`
	Status     string           `json:"status,omitempty"`
	Message    string           `json:"statusMessage,omitempty"`
	Retries    int              `json:"retries,omitempty"`
	Timeout    *metav1.Duration `json:"timeout,omitempty"`
	Workspaces []any            `json:"workspaces,omitempty"`
}

// Reference refers to a task's definition.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
}

// Embedded is an inline task definition.
type Embedded struct {
	APIVersion string          `json:"apiVersion,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Spec       json.RawMessage `json:"spec,omitempty"`
}

// Param is a parameter. Its value may be a string, a list or an object.
type Param struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// Status is the state of the run.
type Status struct {
	duckv1.Status  `json:",inline"`
	StartTime      *metav1.Time          `json:"startTime,omitempty"`
	CompletionTime *metav1.Time          `json:"completionTime,omitempty"`
	Results        []Result              `json:"results,omitempty"`
	RetriesStatus  []Status              `json:"retriesStatus,omitempty"`
	ExtraFields    *runtime.RawExtension `json:"extraFields,omitempty"`
}

// Result is a named result.
type Result struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Ours reports whether a CustomRun refers to our API group, whatever kind or version it
// names. No other controller would handle it.
func Ours(u *unstructured.Unstructured) bool {
	for _, field := range []string{"customRef", "customSpec"} {
		version, _, _ := unstructured.NestedString(u.Object, "spec", field, "apiVersion")
		if group, _, _ := strings.Cut(version, "/"); group == v1alpha1.GroupName {
			return true
		}
	}
	return false
}

// Read parses a CustomRun. It skips invalid fields and lists them, because Tekton's CRD
// accepts anything.
func Read(u *unstructured.Unstructured) (*Run, error) {
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading CustomRun %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	r := &Run{}
	if r.Unread, err = tolerant.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("reading CustomRun %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return r, nil
}

// With returns the object with a new status, and keeps all other fields, including unknown
// ones.
func With(u *unstructured.Unstructured, s Status) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing the status of CustomRun %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	var status map[string]any
	if err := json.Unmarshal(raw, &status); err != nil {
		return nil, fmt.Errorf("writing the status of CustomRun %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	out := u.DeepCopy()
	out.Object["status"] = status
	return out, nil
}

// Attempts returns the statuses of the known attempts, the current one last.
func (s *Status) Attempts() []Status { return append(slices.Clone(s.RetriesStatus), *s) }

// GateRun returns the current or last run; nil before the first.
func (s *Status) GateRun() (*v1alpha1.GateRun, error) {
	if s.ExtraFields == nil || len(s.ExtraFields.Raw) == 0 {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	run := &v1alpha1.GateRun{}
	if err := json.Unmarshal(s.ExtraFields.Raw, run); err != nil {
		return nil, fmt.Errorf("reading status.extraFields: %w", err)
	}
	if run.ID == "" {
		return nil, nil //nolint:nilnil // none, or of another controller
	}
	return run, nil
}

func (s *Status) keep(run *v1alpha1.GateRun) error {
	raw, err := json.Marshal(run.Public())
	if err != nil {
		return fmt.Errorf("writing status.extraFields: %w", err)
	}
	s.ExtraFields = &runtime.RawExtension{Raw: raw}
	return nil
}

// Done reports whether the run is complete. It ignores the conditions, because others
// write them too.
func (r *Run) Done() bool { return r.Status.CompletionTime != nil }
