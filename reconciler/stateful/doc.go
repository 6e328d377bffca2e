// SPDX-License-Identifier: Apache-2.0

// Package stateful watches the clusters that the pods of stateful Knative Services form,
// across all Revisions of a Service.
//
// Its invariants:
//   - It polls a pod only after it has verified that the pod belongs to a Revision of the
//     Service that the pod's label names.
//   - It only sends GET requests, to the pod's own address. It sends no credentials and
//     follows no redirects.
//   - A value that it cannot read is unknown. It is never zero.
//   - Only the leader of a Service polls.
package stateful
