// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Server is a program on port 8080 in one pod, behind a plain Service on port 80. The Service's port 443, for TLS,
// leads to port 8443.
type Server struct {
	Namespace, Name, Image string
	Env                    map[string]string
}

// Selector selects the pods of a Server.
func (s Server) Selector() string { return "app=" + s.Name }

// Serve starts a Server and waits until it can be reached.
func (k Workloads) Serve(ctx context.Context, s Server) error {
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{"app": s.Name}}
	no := false
	container := corev1.Container{
		Name: s.Name, Image: s.Image,
		Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1,
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
		},
		SecurityContext: restricted(),
	}
	for name, value := range s.Env {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, AutomountServiceAccountToken: &no},
		},
	}}
	svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: meta.Labels,
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
			{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)},
		},
	}}
	if _, err := k.Kube.AppsV1().Deployments(s.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("starting %s: %w", s.Name, err)
	}
	if _, err := k.Kube.CoreV1().Services(s.Namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making Service %s: %w", s.Name, err)
	}
	return Wait(ctx, patience, s.Name, func(ctx context.Context) error {
		d, err := k.Kube.AppsV1().Deployments(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.AvailableReplicas == 0 {
			return NotYet("no pod is available: %s", k.whyPods(ctx, s.Namespace, s.Selector()))
		}
		return nil
	})
}

// Request returns the request path for port 8080 of the one running pod that matches the selector. Requests go
// through the API server, so they work from anywhere.
func (k Workloads) Request(ctx context.Context, namespace, selector string) (string, error) {
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return "", err
	}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080/proxy", namespace, p.Name), nil
		}
	}
	return "", fmt.Errorf("no running pod matches %s in %s", selector, namespace)
}

// WaitGone waits until no pod has these labels, as after scaling to zero.
func (k Workloads) WaitGone(ctx context.Context, namespace, selector string) error {
	return Wait(ctx, 2*patience, "the end of all pods with "+selector, func(ctx context.Context) error {
		pods, err := k.pods(ctx, namespace, selector)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			return NotYet("%d exist", len(pods))
		}
		return nil
	})
}

// Evict evicts a pod, like the drain of a node, and waits until it is gone.
func (k Workloads) Evict(ctx context.Context, namespace, name string) error {
	err := k.Kube.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", namespace, name, err)
	}
	return Wait(ctx, patience, "the deletion of pod "+name, func(ctx context.Context) error {
		_, err := k.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return NotYet("it still exists")
	})
}

// CreateNamespace creates a namespace, unless it exists.
func (k *Kit) CreateNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := k.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	// Pods can start only once the controller manager has created their account.
	return Wait(ctx, patience, "namespace "+name, func(ctx context.Context) error {
		_, err := k.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return NotYet("it has no default service account yet")
		}
		return err
	})
}

// DeleteNamespace deletes a namespace with its contents, and waits until it is gone.
func (k *Kit) DeleteNamespace(ctx context.Context, name string) error {
	err := k.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return Wait(ctx, patience, "the deletion of namespace "+name, func(ctx context.Context) error {
		_, err := k.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return NotYet("it still exists")
	})
}

// restricted is the security context of a program that needs no privileges.
func restricted() *corev1.SecurityContext {
	no, yes, user := false, true, int64(65532)
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes, RunAsUser: &user,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
