// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
)

// Scrape returns a pod's own metrics by family. Port and path come from the pod's annotations; with a sidecar, they are
// the sidecar's.
func (k Workloads) Scrape(ctx context.Context, p *corev1.Pod) (map[string]*dto.MetricFamily, error) {
	if p.Annotations["stateful.knative-cdevents.dev/runtime"] == "sidecar" {
		return k.families(ctx, p, sidecarPort, "metrics")
	}
	return k.families(ctx, p, p.Annotations["stateful.knative-cdevents.dev/metrics-port"], p.Annotations["stateful.knative-cdevents.dev/metrics-path"])
}

func (k Workloads) families(ctx context.Context, p *corev1.Pod, port, path string) (map[string]*dto.MetricFamily, error) {
	body, err := k.Carts.askPod(ctx, p, port, path)
	if err != nil {
		return nil, err
	}
	return parseFamilies(body, "pod "+p.Name)
}

func parseFamilies(body []byte, of string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", of, err)
	}
	return families, nil
}

// Counted sums the counters of all running pods by the neutral contract, in the form of a Truth. A counter with an
// entry label has no outcomes by entry, so entry is in Matrix only.
func (k Carts) Counted(ctx context.Context, c *Cart) (*Truth, error) {
	pods, err := k.Pods(ctx, c)
	if err != nil {
		return nil, err
	}
	sum := newTruth()
	for _, p := range pods {
		families, err := k.Workloads.Scrape(ctx, &p)
		if err != nil {
			return nil, err
		}
		revision := p.Labels["serving.knative.dev/revision"]
		for labels, n := range values(families["stateful_requests_total"]) {
			count(sum.Handled, revision, labels["outcome"], n)
			count(sum.Pods, p.Name, labels["outcome"], n)
			if entry := labels["entry_revision"]; entry != "" && n > 0 {
				if sum.Matrix[entry] == nil {
					sum.Matrix[entry] = map[string]int{}
				}
				sum.Matrix[entry][revision] += n
			}
		}
		for labels, n := range values(families["stateful_shard_requests_total"]) {
			if sum.Shards[revision] == nil {
				sum.Shards[revision] = map[string]Outcomes{}
			}
			count(sum.Shards[revision], labels["shard"], labels["outcome"], n)
		}
	}
	return sum, nil
}

// CountedSum sums one family over all running pods, by Revision. For a histogram it sums the counts or, if the name
// ends in "_sum", the sums.
func (k Carts) CountedSum(ctx context.Context, c *Cart, family string) (map[string]int, error) {
	sum := map[string]int{}
	err := k.scrapeAll(ctx, c, func(p *corev1.Pod, families map[string]*dto.MetricFamily) {
		revision := p.Labels["serving.knative.dev/revision"]
		if name, isSum := strings.CutSuffix(family, "_sum"); isSum {
			for _, m := range families[name].GetMetric() {
				sum[revision] += int(m.GetHistogram().GetSampleSum())
			}
			return
		}
		for _, n := range values(families[family]) {
			sum[revision] += n
		}
	})
	return sum, err
}

// CountedBy sums one family over all running pods, by the value of a label.
func (k Carts) CountedBy(ctx context.Context, c *Cart, family, label string) (map[string]int, error) {
	sum := map[string]int{}
	err := k.scrapeAll(ctx, c, func(_ *corev1.Pod, families map[string]*dto.MetricFamily) {
		for labels, n := range values(families[family]) {
			sum[labels[label]] += n
		}
	})
	return sum, err
}

// scrapeAll reads the metrics of all running pods.
func (k Carts) scrapeAll(ctx context.Context, c *Cart, each func(*corev1.Pod, map[string]*dto.MetricFamily)) error {
	pods, err := k.Pods(ctx, c)
	if err != nil {
		return err
	}
	for _, p := range pods {
		families, err := k.Workloads.Scrape(ctx, &p)
		if err != nil {
			return err
		}
		each(&p, families)
	}
	return nil
}

// values iterates over the series of a family. A histogram's value is its count.
func values(family *dto.MetricFamily) func(yield func(map[string]string, int) bool) {
	return func(yield func(map[string]string, int) bool) {
		for _, m := range family.GetMetric() {
			if read := sample(m); !yield(read.Labels, int(read.Value)) {
				return
			}
		}
	}
}
