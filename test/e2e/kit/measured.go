// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
)

// Measured holds the controller's exported metrics of one Service, by family.
type Measured map[string][]Sample

// Sample is one series. For a histogram, Value is its count.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Measured reads the metrics of all replicas. Only the leader for a Service has series of it.
func (k Carts) Measured(ctx context.Context, c *Cart) (Measured, error) {
	return k.MeasuredOf(ctx, c.Namespace, cartName)
}

// MeasuredOf does the same for any Service.
func (k Carts) MeasuredOf(ctx context.Context, namespace, name string) (Measured, error) {
	pods, err := k.Controller.Pods(ctx)
	if err != nil {
		return nil, err
	}
	out, from := Measured{}, ""
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue // it is being deleted, and no longer leads
		}
		families, err := k.Controller.OwnMetrics(ctx, &p)
		if err != nil {
			return nil, NotYet("%v", err)
		}
		for of, family := range families {
			for _, m := range family.GetMetric() {
				s := sample(m)
				if s.Labels["k8s_namespace_name"] != namespace || s.Labels["kn_service_name"] != name {
					continue
				}
				if from != "" && from != p.Name {
					return nil, NotYet("both %s and %s have series of %s/%s", from, p.Name, namespace, name)
				}
				from = p.Name
				out[of] = append(out[of], s)
			}
		}
	}
	if from == "" {
		return nil, NotYet("no replica has series of %s/%s", namespace, name)
	}
	return out, nil
}

// OwnMetrics returns the metrics of a replica of the controller by family.
func (k Controller) OwnMetrics(ctx context.Context, p *corev1.Pod) (map[string]*dto.MetricFamily, error) {
	return k.Workloads.families(ctx, p, "9090", "metrics")
}

// Exported returns the sum of a family of the controller's metrics in each replica, by the name of its pod.
func (k Controller) Exported(ctx context.Context, family string) (map[string]float64, error) {
	pods, err := k.Pods(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, p := range pods {
		families, err := k.Workloads.families(ctx, &p, "9090", "metrics")
		if err != nil {
			return nil, err
		}
		for _, m := range families[family].GetMetric() {
			out[p.Name] += sample(m).Value
		}
	}
	return out, nil
}

func sample(m *dto.Metric) Sample {
	s := Sample{Labels: map[string]string{}, Value: m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()}
	s.Value += float64(m.GetHistogram().GetSampleCount())
	for _, l := range m.GetLabel() {
		s.Labels[l.GetName()] = l.GetValue()
	}
	return s
}

// Counts returns the values of a family by Revision and one more label, without zeros.
func (m Measured) Counts(family, label string) map[string]Outcomes {
	out := map[string]Outcomes{}
	for _, s := range m[family] {
		count(out, s.Labels["kn_revision_name"], s.Labels[label], int(s.Value))
	}
	return out
}

// Value returns the value of a family that has one series per Revision.
func (m Measured) Value(family, revision string) (float64, error) {
	var found []Sample
	for _, s := range m[family] {
		if s.Labels["kn_revision_name"] == revision {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s of Revision %q has %d series: %v", family, revision, len(found), m[family])
	}
	return found[0].Value, nil
}

// Why returns the reason why a figure of a Revision is missing; empty if it is not.
func (m Measured) Why(revision, figure string) string {
	for _, s := range m["canary_no_data"] {
		if s.Labels["kn_revision_name"] == revision && s.Labels["figure"] == figure && s.Value > 0 {
			return s.Labels["reason"]
		}
	}
	return ""
}

// AtEntry returns queue-proxy's counters for a Service with one pod, from both families by status, and the pod's
// address.
func (k Carts) AtEntry(ctx context.Context, namespace, service string) (http, serving Outcomes, address string, err error) {
	pods, err := k.Workloads.pods(ctx, namespace, "serving.knative.dev/service="+service)
	if err != nil {
		return nil, nil, "", err
	}
	if len(pods) != 1 {
		return nil, nil, "", NotYet("Service %s/%s has %d pods", namespace, service, len(pods))
	}
	families, err := k.Workloads.families(ctx, &pods[0], "9091", "metrics")
	if err != nil {
		return nil, nil, "", err
	}
	http, serving = Outcomes{}, Outcomes{}
	for labels, n := range values(families["http_server_request_duration_seconds"]) {
		http[labels["http_response_status_code"]] += n
	}
	// The second name is that of Serving 1.19.0; a pod has one of them.
	for _, family := range []string{"kn_serving_invocation_duration_seconds", "kn_queueproxy_app_duration_seconds"} {
		for labels, n := range values(families[family]) {
			serving[labels["http_response_status_code"]] += n
		}
	}
	return http, serving, pods[0].Status.PodIP, nil
}
