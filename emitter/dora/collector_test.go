// SPDX-License-Identifier: Apache-2.0

package dora

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

func subject(name string, created time.Duration, p *v1alpha1.Performance) *v1alpha1.CDEventSubject {
	return &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(after(created))},
		Spec:       v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: "shop", Name: name},
		Status:     v1alpha1.CDEventSubjectStatus{Performance: p},
	}
}

// stored is a ledger, of which this process leads for all but one.
type stored []*v1alpha1.CDEventSubject

func (s stored) All() []*v1alpha1.CDEventSubject         { return s }
func (stored) IsLeaderFor(key types.NamespacedName) bool { return key.Name != "elsewhere" }
func (stored) EnvironmentOf(namespace string) string     { return "production of " + namespace }

func TestCollector(t *testing.T) {
	t.Parallel()
	cart := &v1alpha1.Performance{Deployments: 3, Stopped: 2, Failures: 1}
	cart.Restore = observe(observe(nil, RestoreBuckets, 90*time.Second), RestoreBuckets, 30*24*time.Hour)
	gone := subject("gone", 0, &v1alpha1.Performance{Deployments: 9})
	gone.Status.Removed = true
	all := []*v1alpha1.CDEventSubject{
		subject("cart", time.Hour, cart), subject("cart", 0, &v1alpha1.Performance{Deployments: 7}), gone,
		subject("elsewhere", 0, &v1alpha1.Performance{Deployments: 1}), subject("quiet", 0, nil),
	}
	c := &Collector{
		Ledger: stored(all), Leader: stored(nil), Environments: stored(nil),
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	const labels = `environment="production of shop",k8s_namespace_name="shop",kn_service_name="cart"`
	want := strings.ReplaceAll(`
# HELP dora_change_failures_total Deployments that failed: rolled back or followed by an outage (outcome completed), or withdrawn as a canary (outcome stopped).
# TYPE dora_change_failures_total counter
dora_change_failures_total{LABELS,outcome="completed"} 1
dora_change_failures_total{LABELS,outcome="stopped"} 2
# HELP dora_deployments_total Deployments to users: Revisions that got all traffic (outcome completed), and canaries that were withdrawn before (outcome stopped).
# TYPE dora_deployments_total counter
dora_deployments_total{LABELS,outcome="completed"} 3
dora_deployments_total{LABELS,outcome="stopped"} 2
`, "LABELS", labels)
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dora_deployments_total",
		"dora_change_failures_total", "dora_change_lead_time_seconds"); err != nil {
		t.Error(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "dora_time_to_restore_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 2 || h.GetSampleSum() != 90+30*24*3600 || h.GetBucket()[1].GetCumulativeCount() != 1 ||
			h.GetBucket()[len(RestoreBuckets)-1].GetCumulativeCount() != 1 {
			t.Errorf("%v", h)
		}
		return
	}
	t.Error("there is no time to restore")
}
