// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Kinds of errors that a user can do something about.
var (
	// ErrNotInstalled: the API server does not serve the kind.
	ErrNotInstalled = errors.New("not installed")
	// ErrForbidden: the user may not read it.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrUnknownKind: the user named a kind that does not exist.
	ErrUnknownKind = errors.New("unknown kind")
)

// Error says what could not be read, and what to do about it.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Message is a sentence for a user, without a period.
	Message string
	// Missing is the right that the user does not have, such as "list cdeventsources in namespace shop".
	Missing string

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the kind, and the API server's answer.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.cause} }

// explain turns an answer of the API server to a request for several objects into an Error.
func explain(err error, verb string, of schema.GroupVersionResource, namespace string) error {
	return explainWith(err, verb, of, namespace, remedy(of, namespace))
}

// explainWith does the same, and says what to do if the user may not read them.
func explainWith(err error, verb string, of schema.GroupVersionResource, namespace, do string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return &Error{Kind: ErrNotInstalled, Message: notInstalled(of), cause: err}
	case apierrors.IsForbidden(err):
		missing := verb + " " + of.GroupResource().String()
		if of != definitions && of != namespaces { // they are in none
			missing += where(namespace)
		}
		return &Error{
			Kind: ErrForbidden, Message: "you may not " + missing + "; " + do, Missing: missing, cause: err,
		}
	}
	return fmt.Errorf("reading %s%s: %w", of.GroupResource(), where(namespace), err)
}

// explainOne does the same for a request for one object.
func explainOne(err error, of schema.GroupVersionResource, kind, namespace, name string) error {
	if known(err) {
		return &Error{
			Kind: ErrNotFound, Message: fmt.Sprintf("there is no %s %q in namespace %s", kind, name, namespace),
			cause: err,
		}
	}
	return explain(err, "get", of, namespace)
}

// known reports whether the answer "not found" is about an object, and not about its kind. An API server that does
// not serve the kind has no Status to answer with.
func known(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func notInstalled(of schema.GroupVersionResource) string {
	switch of.Group {
	case v1alpha1.GroupName:
		return fmt.Sprintf(
			"knative-cdevents is not installed in this cluster: its API server does not serve %s; ask an operator to install it, or choose another cluster with --context",
			of.GroupResource(),
		)
	case services.Group:
		return "Knative Serving is not installed in this cluster: its API server does not serve " + of.GroupResource().String()
	}
	return "the API server does not serve " + of.GroupResource().String()
}

// remedy says which right to ask for. Where aggregation works, ClusterRole view contains those for namespaces.
func remedy(of schema.GroupVersionResource, namespace string) string {
	switch {
	case of == v1alpha1.SubjectResource, of == v1alpha1.BaselineResource, of == v1alpha1.PlacementResource,
		of == v1alpha1.GateRunResource:
		return askForLedger(namespace)
	case of == definitions, of == namespaces:
		return "ask an operator for this right"
	case namespace == "":
		return "choose a namespace with -n, or ask an operator for ClusterRole view in all"
	case of.Group == v1alpha1.GroupName, of.Group == services.Group:
		return "ask an operator for ClusterRole view in that namespace"
	}
	return "ask an operator for this right"
}

// askForLedger names the role for the ledger, which also has the right to see how the controller runs.
func askForLedger(namespace string) string {
	return "ask an operator for ClusterRole knative-cdevents-ledger-view in namespace " + namespace
}

func where(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}

// gateRun reads the run that a CustomRun holds, nil if there is none.
func gateRun(customRun map[string]any) (*v1alpha1.GateRun, error) {
	status, _ := customRun["status"].(map[string]any)
	raw, err := json.Marshal(status["extraFields"])
	if err != nil {
		return nil, fmt.Errorf("reading the run of a CustomRun: %w", err)
	}
	var run *v1alpha1.GateRun
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, fmt.Errorf("reading the run of a CustomRun: %w", err)
	}
	if run == nil || run.ID == "" {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	return run, nil
}
