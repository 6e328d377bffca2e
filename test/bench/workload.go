// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A sharded Service has two Revisions with five pods each; two ports of each pod are scraped.
const (
	shardedRevisions = 2
	podsEach         = 5
	podsOfService    = shardedRevisions * podsEach
	portsOfService   = 2 * podsOfService
)

// declared are the template annotations of a stateful Service.
var declared = map[string]string{
	v1alpha1.AnnotationRuntime:     string(v1alpha1.RuntimeCustom),
	v1alpha1.AnnotationMetricsPort: fmt.Sprint(applicationPort),
}

// deploy writes a sharded Service and its pods, as Serving, Kubernetes and a kubelet would.
func (s *stage) deploy(ctx context.Context, n int) error {
	name := fmt.Sprintf("sharded-%03d", n)
	if _, err := s.cast.create(ctx, name, shardedRevisions); err != nil {
		return err
	}
	for i := range shardedRevisions {
		api := s.cast.client.ServingV1().Revisions(namespace)
		rev, err := api.Get(ctx, fmt.Sprintf("%s-%05d", name, i+1), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading a Revision of %s: %w", name, err)
		}
		maps.Copy(rev.Annotations, declared)
		if rev, err = api.Update(ctx, rev, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("declaring Revision %d of %s: %w", i+1, name, err)
		}
		if err := s.scale(ctx, rev, n*podsOfService+i*podsEach); err != nil {
			return fmt.Errorf("writing the pods of Revision %s: %w", rev.Name, err)
		}
	}
	return nil
}

// scale writes a Revision's Deployment, ReplicaSet and pods, numbered from first.
func (s *stage) scale(ctx context.Context, rev *servingv1.Revision, first int) error {
	labels := map[string]string{
		serving.RevisionLabelKey: rev.Name, serving.RevisionUID: string(rev.UID), "app": rev.Name,
		serving.ServiceLabelKey: rev.Labels[serving.ServiceLabelKey], serving.ServiceUIDLabelKey: rev.Labels[serving.ServiceUIDLabelKey],
		serving.ConfigurationLabelKey:           rev.Labels[serving.ConfigurationLabelKey],
		serving.ConfigurationGenerationLabelKey: rev.Labels[serving.ConfigurationGenerationLabelKey],
	}
	meta := func(name string, owner *metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: declared, OwnerReferences: []metav1.OwnerReference{*owner}}
	}
	spec := podSpec(rev.Name, 1)
	spec.Containers[0].ReadinessProbe = nil // in a pod, queue-proxy has it
	spec.Containers = append(spec.Containers, corev1.Container{Name: "queue-proxy", Image: "gcr.io/knative-releases/queue:v0.50.0"})
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: declared}, Spec: spec}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": rev.Name}}

	d := &appsv1.Deployment{
		ObjectMeta: meta(rev.Name+"-deployment", metav1.NewControllerRef(rev, servingv1.SchemeGroupVersion.WithKind("Revision"))),
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: template},
	}
	d, err := s.kube.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the Deployment: %w", err)
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: meta(d.Name+"-0", metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))),
		Spec:       appsv1.ReplicaSetSpec{Selector: selector, Template: template},
	}
	if set, err = s.kube.AppsV1().ReplicaSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the ReplicaSet: %w", err)
	}
	for i := range podsEach {
		pod := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("%s-%d", set.Name, i), metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))), Spec: spec}
		if pod, err = s.kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating pod %d: %w", i, err)
		}
		podStatus(pod, podAddress(first+i))
		if _, err := s.kube.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of pod %d: %w", i, err)
		}
	}
	return nil
}

func podStatus(pod *corev1.Pod, ip string) {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs, pod.Status.StartTime = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}, &now
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// deployAll writes the sharded Services in a range of numbers.
func (s *stage) deployAll(ctx context.Context, from, to int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for n := from; n < to; n++ {
		group.Go(func() error { return s.deploy(ctx, n) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("writing %d sharded Services: %w", to-from, err)
	}
	return nil
}

// undeploy deletes all Services with their objects, because no garbage collector runs.
func (s *stage) undeploy(ctx context.Context) error {
	now, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	v1 := s.cast.client.ServingV1()
	err := errors.Join(
		v1.Services(namespace).DeleteCollection(ctx, now, all), v1.Routes(namespace).DeleteCollection(ctx, now, all),
		v1.Revisions(namespace).DeleteCollection(ctx, now, all), s.kube.AppsV1().Deployments(namespace).DeleteCollection(ctx, now, all),
		s.kube.AppsV1().ReplicaSets(namespace).DeleteCollection(ctx, now, all), s.kube.CoreV1().Pods(namespace).DeleteCollection(ctx, now, all))
	if err != nil {
		return fmt.Errorf("removing the sharded Services: %w", err)
	}
	return s.forget(ctx)
}
