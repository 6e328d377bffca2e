// Package stateful watches the clusters that the pods of stateful Knative Services form,
// across all Revisions of a Service.
//
// Its invariants:
//   - It polls a pod only after the pod is proven to belong to a Revision of the Service
//     that its label names.
//   - It only reads, from the pod's own address, without credentials and without following
//     redirects.
//   - What it cannot find out is unknown, and never zero.
//   - Only the leader of a Service polls.
package stateful
