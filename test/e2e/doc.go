// SPDX-License-Identifier: Apache-2.0

// Package e2e tests everything a user relies on, on a real cluster with real Knative Serving and real pods.
//
// Invariant: only events that the sink received count. The sink shares no code with the controller, and
// events are checked against the specification's own schemas. The tests need the build tag e2e and KUBECONFIG;
// "make e2e" sets both. They run one after the other, because some stop or remove the controller.
package e2e
