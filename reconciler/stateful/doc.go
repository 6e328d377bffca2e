// Package stateful watches the clusters that the pods of stateful Knative
// Services form, over all Revisions of a Service.
//
// Its invariants: it asks nothing of a pod before it is certain that the pod
// belongs to a Revision of the Service whose label it carries; it only ever
// reads, from the pod's own address, without credentials and without following a
// redirect; what it could not find out is unknown, and never nothing; only the
// leader of a Service asks.
package stateful
