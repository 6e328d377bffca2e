package kit

import (
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
)

// Measured is what the controller exports of one Service, by family.
type Measured map[string][]Sample

// Sample is one series; of a histogram, Value is its count.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Measured asks all replicas of the controller. One of them leads for a Service, and only that one has series of it.
func (k *Kit) Measured(ctx context.Context, c *Cart) (Measured, error) {
	pods, err := k.Pods(ctx)
	if err != nil {
		return nil, err
	}
	out, from := Measured{}, ""
	for _, p := range pods {
		families, err := k.families(ctx, &p, "9090", "metrics")
		if err != nil {
			return nil, err
		}
		for name, family := range families {
			for _, m := range family.GetMetric() {
				s := sample(m)
				if s.Labels["k8s_namespace_name"] != c.Namespace || s.Labels["kn_service_name"] != cartName {
					continue
				}
				if from != "" && from != p.Name {
					return nil, NotYet("both %s and %s tell of %s", from, p.Name, c.Namespace)
				}
				from = p.Name
				out[name] = append(out[name], s)
			}
		}
	}
	if from == "" {
		return nil, NotYet("no replica tells of %s", c.Namespace)
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

// Counts are the values of a family by Revision and one more label, without zeros.
func (m Measured) Counts(family, label string) map[string]Outcomes {
	out := map[string]Outcomes{}
	for _, s := range m[family] {
		count(out, s.Labels["kn_revision_name"], s.Labels[label], int(s.Value))
	}
	return out
}

// Value of a family that has one series for a Revision.
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

// Why a figure of a Revision is missing, empty if it is not.
func (m Measured) Why(revision, figure string) string {
	for _, s := range m["canary_no_data"] {
		if s.Labels["kn_revision_name"] == revision && s.Labels["figure"] == figure && s.Value > 0 {
			return s.Labels["reason"]
		}
	}
	return ""
}
