// SPDX-License-Identifier: Apache-2.0

// Package pods watches the pods of Knative Services and determines which Revision owns them.
//
// Its invariant: anyone who may create a pod can give it any label. A pod therefore counts
// as a Service's only after its owners lead to a Revision of that Service.
package pods
