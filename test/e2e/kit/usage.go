// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Usage is what the kubelet knows of a container: its processor time since the start, and its working set in bytes.
type Usage struct {
	Container string
	Spent     time.Duration
	Memory    int64
}

// Usage asks the kubelet for the containers of pods on one node, until it has looked at each of them after a time.
func (k Workloads) Usage(ctx context.Context, pods []corev1.Pod, after time.Time) (out []Usage, err error) {
	err = Wait(ctx, time.Minute, "new figures of the kubelet", func(ctx context.Context) error {
		body, err := k.Kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", pods[0].Spec.NodeName, "proxy/metrics/resource").DoRaw(ctx)
		if err != nil {
			return err
		}
		families, err := parseFamilies(body, "node "+pods[0].Spec.NodeName)
		if err != nil {
			return err
		}
		memory := map[string]int64{}
		for _, m := range families["container_memory_working_set_bytes"].GetMetric() {
			s := sample(m)
			memory[s.Labels["namespace"]+"/"+s.Labels["pod"]+"/"+s.Labels["container"]] = int64(s.Value)
		}
		out = nil
		for _, m := range families["container_cpu_usage_seconds_total"].GetMetric() {
			s := sample(m)
			if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Namespace == s.Labels["namespace"] && p.Name == s.Labels["pod"] }) {
				continue
			}
			if at := time.UnixMilli(m.GetTimestampMs()); !at.After(after) {
				return NotYet("those of %s are from %s", s.Labels["container"], at)
			}
			out = append(out, Usage{
				Container: s.Labels["container"], Spent: time.Duration(s.Value * float64(time.Second)),
				Memory: memory[s.Labels["namespace"]+"/"+s.Labels["pod"]+"/"+s.Labels["container"]],
			})
		}
		if len(out) == 0 {
			return NotYet("it knows none of the pods")
		}
		return nil
	})
	return out, err
}
