// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// serverless switches the fleet to the serverless mode, and shows it asleep, awake, and without its doorbell.
func (f *fleetOf) serverless(t *testing.T, config string) {
	ctx := t.Context()
	kube := fleet.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(f.Config()))
	holder, seconds, none := "doorbell-0", int32(240), int32(0)
	lease := fleet.Must[*coordinationv1.Lease](t)(kube.CoordinationV1().Leases(fleet.System).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "doorbell", Annotations: map[string]string{
			"knative-cdevents.dev/answered": `{"uid":"1","positions":{},"lastRing":"` + ago(3*time.Minute).Format(time.RFC3339) + `"}`,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: micro(time.Minute)},
	}, metav1.CreateOptions{}))
	pod := map[string]string{"app": "controller"}
	deployment := fleet.Must[*appsv1.Deployment](t)(kube.AppsV1().Deployments(fleet.System).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "controller", Annotations: map[string]string{
			v1alpha1.AwakeAnnotation:   "asleep: there has been nothing to measure for 15m0s",
			v1alpha1.AwakeAtAnnotation: ago(2 * time.Hour).Format(time.RFC3339),
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "controller"}}},
			},
		},
	}, metav1.CreateOptions{}))
	cart := fleet.Must[*v1alpha1.CDEventSubject](t)(f.subject(t, "cart"))
	soon := metav1.NewMicroTime(noon.Add(4 * time.Minute))
	cart.Status.Attempts = []v1alpha1.Attempt{{Source: f.sources["staging"], Sequence: 6, Tries: 3, NotBefore: soon}}
	cart.Status.Due = &metav1.MicroTime{Time: noon.Add(30 * time.Second)}
	cart.Annotations = map[string]string{v1alpha1.WakeAnnotation: noon.Add(30 * time.Second).Format(time.RFC3339)}
	fleet.Must[*v1alpha1.CDEventSubject](t)(f.Events.CDEventSubjects(fleet.System).Update(ctx, cart, metav1.UpdateOptions{}))

	run(t, config, "", "list", "-A").golden(t, "serverless-list")
	run(t, config, "", "why", "-A").golden(t, "serverless-why")
	run(t, config, "", "why", "cart", "-n", "shop").golden(t, "serverless-why-service")

	one := int32(1)
	deployment.Spec.Replicas = &one
	deployment.Annotations[v1alpha1.AwakeAnnotation] = "awake: CanaryGate shop/cart-gate names Service shop/cart, whose traffic is split"
	deployment.Annotations[v1alpha1.AwakeAtAnnotation] = ago(20 * time.Second).Format(time.RFC3339)
	fleet.Must[*appsv1.Deployment](t)(kube.AppsV1().Deployments(fleet.System).Update(ctx, deployment, metav1.UpdateOptions{}))
	*lease.Spec.HolderIdentity = ""
	lease = fleet.Must[*coordinationv1.Lease](t)(kube.CoordinationV1().Leases(fleet.System).Update(ctx, lease, metav1.UpdateOptions{}))
	run(t, config, "", "why", "-n", "fleet").golden(t, "serverless-unanswered")

	*lease.Spec.HolderIdentity, lease.Spec.RenewTime = holder, micro(time.Hour)
	fleet.Must[*coordinationv1.Lease](t)(kube.CoordinationV1().Leases(fleet.System).Update(ctx, lease, metav1.UpdateOptions{}))
	run(t, config, "", "list", "-n", "fleet").golden(t, "serverless-awake")
	run(t, config, "", "why", "-n", "fleet").golden(t, "serverless-broken")
	run(t, config, "", "list", "-n", "fleet", "-o", "yaml").golden(t, "serverless-yaml")
}
