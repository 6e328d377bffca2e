// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Each program has a policy of its name, which selects its pods and no other ones. It says which ports may be reached.
// Of the others, only the node needs those of the probes, and profiles stay closed.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	policies := map[string]*networkingv1.NetworkPolicy{}
	for _, p := range inFolder[*networkingv1.NetworkPolicy](t, "optional/networkpolicies/*.yaml") {
		policies[p.Name] = p
		if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Egress) == 0 || len(p.Spec.Ingress) == 0 {
			t.Errorf("%s leaves a direction open, or closes it: %+v", p.Name, p.Spec)
		}
		for _, to := range p.Spec.Egress {
			if len(to.To) == 0 && len(to.Ports) == 0 {
				t.Errorf("%s lets everything out", p.Name)
			}
		}
	}
	programs := slices.Concat(monitoredDeployments(t), injectorOf[*appsv1.Deployment](t))
	if len(programs) != len(policies) {
		t.Errorf("%d programs, %d policies", len(programs), len(policies))
	}
	for _, d := range programs {
		own := policies[d.Name]
		if own == nil {
			t.Errorf("%s has no policy", d.Name)
			continue
		}
		for name, p := range policies {
			selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil || selector.Matches(labels.Set(d.Spec.Template.Labels)) != (name == d.Name) {
				t.Errorf("policy %s and Deployment %s: %v", name, d.Name, err)
			}
		}
		ports := d.Spec.Template.Spec.Containers[0].Ports
		for _, p := range ports {
			closed := p.Name == "probes" || p.Name == "profiling"
			if reachable := slices.ContainsFunc(own.Spec.Ingress, opens(p)); reachable == closed {
				t.Errorf("%s: port %s is reachable: %v", d.Name, p.Name, reachable)
			}
		}
		for _, rule := range own.Spec.Ingress {
			for _, open := range rule.Ports {
				named := slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == open.Port.StrVal })
				if open.Port.Type == intstr.String && !named {
					t.Errorf("%s has no port %s", d.Name, open.Port)
				}
			}
		}
	}
}

// opens reports whether a rule lets somebody reach a port.
func opens(p corev1.ContainerPort) func(networkingv1.NetworkPolicyIngressRule) bool {
	return func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return slices.ContainsFunc(rule.Ports, func(open networkingv1.NetworkPolicyPort) bool {
			return open.Port.StrVal == p.Name || open.Port.IntVal == p.ContainerPort
		})
	}
}
