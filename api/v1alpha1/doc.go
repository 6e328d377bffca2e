// Package v1alpha1 holds the resources of the API group knative-cdevents.dev:
// CDEventSource, by which users say which events they want and where;
// CDEventSubject, the ledger in which the controller keeps what it has seen and
// what it still owes; and CanaryGate, by which they say how a canary is judged. Its
// invariant: what Validate lets in can be given its defaults and stays valid. It also reads the annotations by which a template declares
// that its pods are a stateful cluster.
//
// It imports nothing of this project, so that clients can use it alone.
//
// +kubebuilder:object:generate=true
// +groupName=knative-cdevents.dev
package v1alpha1
