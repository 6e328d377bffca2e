// Package e2e proves on a real cluster, with real Knative Serving and real pods, what a user was promised.
//
// Invariant: an event counts only as the sink received it. The sink shares no code with the controller, and
// events are judged by the specification's own schemas. The tests need the build tag e2e and KUBECONFIG;
// "make e2e" sets both. They run one after the other, for some of them stop or remove the controller.
package e2e
