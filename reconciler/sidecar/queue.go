// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// BuiltFor is the minor version of Knative Serving whose queue-proxy cmd/queue-proxy is: that of go.mod.
const BuiltFor = "1.23"

// injectIntoQueueProxy makes the sidecar a part of queue-proxy, instead of a container: one process less in the way of
// a request, and one image that must be of the same minor version as Serving.
func injectIntoQueueProxy(
	pod *corev1.Pod, d v1alpha1.Stateful, s Settings, queue, user *corev1.Container, port int32,
) error {
	if queue.Image == s.QueueProxyImage && variable(queue, "STATEFUL_KEY") != "" {
		return nil
	}
	asked := fmt.Sprintf("annotation %s is %s", v1alpha1.AnnotationProxy, v1alpha1.ProxyQueueProxy)
	if s.QueueProxyImage == "" {
		return fmt.Errorf("%s, and the installation names no image of it (QUEUE_PROXY_IMAGE of the injector); remove the "+
			"annotation to have the sidecar in a container of its own", asked)
	}
	if version := strings.TrimPrefix(s.ServingVersion, "v"); version != BuiltFor && !strings.HasPrefix(version, BuiltFor+".") {
		return fmt.Errorf("%s, which is built for Knative Serving %s, and the cluster has %q; remove the annotation to have the "+
			"sidecar in a container of its own", asked, BuiltFor, s.ServingVersion)
	}
	if err := onlySidecar(queue, user); err != nil {
		return err
	}
	if err := attach(pod, s, queue, user); err != nil {
		return err
	}
	s.RestartTogether = false // the container stays when queue-proxy ends
	c := container(d, s, queue, port)
	queue.Image = s.QueueProxyImage
	queue.Env = append(queue.Env, c.Env...)
	queue.VolumeMounts = append(queue.VolumeMounts, c.VolumeMounts...)
	return nil
}
