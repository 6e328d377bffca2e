// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"knative.dev/eventing/pkg/apis/eventing"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/kmeta"
	"knative.dev/serving/pkg/apis/autoscaling"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/reconciler/doorbell"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot/receiver"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// Folders of the serverless mode.
const (
	serverless         = "optional/serverless/*.yaml"
	serverlessPlain    = "optional/serverless/deployment/*.yaml"
	serverlessEventing = "optional/serverless/eventing/*.yaml"
)

// inFolder returns the manifests of one type in a folder.
func inFolder[T any](t *testing.T, pattern string) []T {
	t.Helper()
	var out []T
	for _, m := range decode(t, pattern) {
		if typed, ok := m.object.(T); ok {
			out = append(out, typed)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no manifest of type %T in %s", *new(T), pattern)
	}
	return out
}

// coreService returns the core as a Knative Service, as Serving's webhook completes it.
func coreService(t *testing.T) *servingv1.Service {
	t.Helper()
	all := inFolder[*servingv1.Service](t, serverless)
	if len(all) != 1 {
		t.Fatalf("%d Knative Services", len(all))
	}
	s := all[0].DeepCopy()
	ctx := apis.WithinCreate(t.Context())
	s.SetDefaults(ctx)
	if err := s.Validate(ctx); err != nil {
		t.Errorf("Serving refuses the core: %v", err)
	}
	return s
}

func doorbellDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return inFolder[*appsv1.Deployment](t, serverless)[0]
}

func TestServerlessManifests(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{serverless, serverlessPlain, serverlessEventing} {
		for _, m := range decode(t, pattern) {
			kind := m.object.GetObjectKind().GroupVersionKind().Kind
			clusterWide := strings.HasPrefix(kind, "Cluster") || strings.HasPrefix(kind, "ValidatingAdmissionPolicy")
			if m.GetLabels()["app.kubernetes.io/name"] != namespace || m.GetLabels()["app.kubernetes.io/version"] != "devel" {
				t.Errorf("%s: %s has the labels %v", m.file, m.GetName(), m.GetLabels())
			}
			if (m.GetNamespace() == namespace) == clusterWide {
				t.Errorf("%s: %s is in namespace %q", m.file, m.GetName(), m.GetNamespace())
			}
		}
	}
}

// The core scales to zero, and has the time that an answer needs.
func TestCoreIsServerless(t *testing.T) {
	t.Parallel()
	s := coreService(t)
	if s.Labels["networking.knative.dev/visibility"] != "cluster-local" {
		t.Error("the core is reachable from outside of the cluster")
	}
	template := s.Spec.Template
	for key, want := range map[string]string{autoscaling.MinScaleAnnotationKey: "0", autoscaling.MaxScaleAnnotationKey: "1"} {
		if got := template.Annotations[key]; got != want {
			t.Errorf("%s is %q", key, got)
		}
	}
	if template.Labels["app.kubernetes.io/name"] != namespace {
		t.Error("the doorbell would ring about the core's own Revisions, and the core would never sleep")
	}
	// A sweep comes on top of the rings.
	if c := template.Spec.ContainerConcurrency; c == nil || *c <= receiver.DefaultAtOnce {
		t.Errorf("%v requests at once, and the core answers %d rings", c, receiver.DefaultAtOnce)
	}
	const start = 30 * time.Second
	serves := time.Duration(*template.Spec.TimeoutSeconds) * time.Second
	if serves < start+receiver.DefaultWithin {
		t.Errorf("Serving waits %s for an answer, which takes up to %s after the start", serves, receiver.DefaultWithin)
	}
	rings, err := time.ParseDuration(flagsOf(t, "doorbell", doorbellDeployment(t).Spec.Template.Spec.Containers[0].Args)["ring-timeout"])
	if err != nil || rings <= serves {
		t.Errorf("the doorbell waits %s, and Serving %s (%v)", rings, serves, err)
	}
	delivery := inFolder[*eventingv1.Trigger](t, serverlessEventing)[0].Spec.Delivery
	if waits := delivery.Timeout; waits == nil || *waits != fmt.Sprintf("PT%dS", int(rings.Seconds())) {
		t.Errorf("the Trigger waits %v, the doorbell %s", waits, rings)
	}
	memoryLimit(t, template.Spec.Containers[0])
}

// memoryLimit checks that Go's limit, which Serving allows as a plain value only, is a little below the container's.
func memoryLimit(t *testing.T, c corev1.Container) {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	mib, err := strconv.ParseInt(strings.TrimSuffix(c.Env[i].Value, "MiB"), 10, 64)
	if limit := c.Resources.Limits.Memory().Value() >> 20; err != nil || mib >= limit || mib < limit*8/10 {
		t.Errorf("GOMEMLIMIT is %s of %d MiB", c.Env[i].Value, limit)
	}
}

// flagsOf returns the flags of a program's arguments. All must be its own.
func flagsOf(t *testing.T, program string, args []string) map[string]string {
	t.Helper()
	source, err := os.ReadFile("../cmd/" + program + "/main.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if out[name] = value; !strings.HasPrefix(arg, "--") || value == "" || !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("%s has no flag %s", program, arg)
		}
	}
	return out
}

// What "make install-serverless" takes together has each object once, and all that it needs.
func TestServerlessForms(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for form, want := range map[string]string{"knative": "core doorbell", "deployment": "core core doorbell", "eventing": "core unanswered-rings unanswered-rings"} {
		files := regexp.MustCompile(`(?m)^serverless_` + form + ` := (.*)$`).FindStringSubmatch(string(makefile))
		if files == nil {
			t.Fatalf("the Makefile has no form %s", form)
		}
		seen, workloads := map[string]bool{}, []string{}
		for _, file := range strings.Split(strings.ReplaceAll(files[1], "$(serverless_dir)", "optional/serverless"), "-f ")[1:] {
			if file = strings.TrimSpace(file); strings.HasSuffix(file, "/") {
				file += "*.yaml"
			}
			for _, m := range decode(t, file) {
				kind := m.object.GetObjectKind().GroupVersionKind()
				if name := kind.Group + kind.Kind + m.GetName(); seen[name] {
					t.Errorf("%s: %s has %s twice", form, m.file, name)
				} else {
					seen[name] = true
				}
				if kind.Kind == "Deployment" || kind.Kind == "Service" {
					workloads = append(workloads, m.GetName())
				}
			}
		}
		if slices.Sort(workloads); strings.Join(workloads, " ") != want || !seen["ServiceAccountcore"] {
			t.Errorf("%s has %v, want %s", form, workloads, want)
		}
	}
}

// The doorbell finds the core, and the core knows it.
func TestServerlessIsWired(t *testing.T) {
	t.Parallel()
	knative, d := coreService(t), doorbellDeployment(t)
	pod := d.Spec.Template.Spec
	flags := flagsOf(t, "doorbell", pod.Containers[0].Args)
	if want := fmt.Sprintf("http://%s.%s", knative.Name, namespace); flags["core"] != want {
		t.Errorf("it rings %s, want %s", flags["core"], want)
	}
	if others := foundIn(strings.TrimPrefix(flags["core"], "http://"), namespace); len(others) != 1 || others[0] != namespace {
		t.Errorf("the core is looked for in the namespaces %q", others)
	}
	plain, service := inFolder[*appsv1.Deployment](t, serverlessPlain)[0], inFolder[*corev1.Service](t, serverlessPlain)[0]
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(plain.Spec.Template.Labels)) || service.Name != knative.Name ||
		labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) ||
		service.Spec.Ports[0].Port != 80 || service.Spec.Ports[0].TargetPort.StrVal != plain.Spec.Template.Spec.Containers[0].Ports[0].Name {
		t.Errorf("%+v", service.Spec)
	}

	if len(pod.Volumes) != 1 || pod.Volumes[0].Projected == nil || len(pod.Volumes[0].Projected.Sources) != 1 {
		t.Fatalf("%+v", pod.Volumes)
	}
	token, mount := pod.Volumes[0].Projected.Sources[0].ServiceAccountToken, pod.Containers[0].VolumeMounts[0]
	if flags["core-token-file"] != mount.MountPath+"/"+token.Path || !mount.ReadOnly {
		t.Errorf("it reads %s, and the token is %s in %s", flags["core-token-file"], token.Path, mount.MountPath)
	}
	source, err := os.ReadFile("../cmd/core/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), `defaultAudience = "`+token.Audience+`"`) {
		t.Errorf("the core expects another audience than %s", token.Audience)
	}
	trigger := inFolder[*eventingv1.Trigger](t, serverlessEventing)[0]
	if to := trigger.Spec.Subscriber; to.Audience == nil || *to.Audience != token.Audience || to.Ref.Name != knative.Name {
		t.Errorf("the Trigger sends to %+v", to)
	}
	// As Eventing's auth.GetOIDCServiceAccountNameForResource makes it, whose package needs further modules.
	account := strings.ToLower(kmeta.ChildName(trigger.Name, "-oidc-"+eventingv1.SchemeGroupVersion.Group+"-Trigger"))
	senders := fmt.Sprintf("%s/%s,%s/%s", namespace, pod.ServiceAccountName, namespace, account)
	for _, c := range []corev1.Container{knative.Spec.Template.Spec.Containers[0], plain.Spec.Template.Spec.Containers[0]} {
		if got := flagsOf(t, "core", c.Args)["senders"]; got != senders {
			t.Errorf("%s may ring, want %s", got, senders)
		}
	}

	if l := inFolder[*coordinationv1.Lease](t, serverless)[0]; l.Name != doorbell.Defaults.Lease || l.Spec.HolderIdentity != nil {
		t.Errorf("%+v", l)
	}
	if got, err := time.ParseDuration(flags["sweep-interval"]); err != nil || got != doorbell.Defaults.SweepEvery {
		t.Errorf("it sweeps every %s, and the documentation says %s", got, doorbell.Defaults.SweepEvery)
	}
	if *d.Spec.Replicas != 1 || *plain.Spec.Replicas != 1 {
		t.Error("one replica is enough")
	}
}

// foundIn returns the namespaces whose Services may answer for a name, up to the one that must, in the order in which a pod
// asks: it tries names with fewer dots than five below each of its search domains. A Service has the name
// service.namespace.svc.cluster.local, and its endpoints may have another part before that.
func foundIn(name, own string) (namespaces []string) {
	for _, search := range []string{own + ".svc.cluster.local", "svc.cluster.local", "cluster.local"} {
		parts, is := strings.CutSuffix(name+"."+search, ".svc.cluster.local")
		if all := strings.Split(parts, "."); is && (len(all) == 2 || len(all) == 3) {
			namespaces = append(namespaces, all[len(all)-1])
			if len(all) == 2 {
				break
			}
		}
	}
	return slices.Compact(namespaces)
}

// An API server with the kinds of Serving and Eventing admits everything, with no unknown field; and the pods in a
// namespace that is restricted, as ours is.
func TestServerlessIsAdmitted(t *testing.T) {
	cp, ctx := controlplane.Start(t), t.Context()
	for _, install := range []func() error{
		func() error { return cp.InstallServing(ctx) }, func() error { return cp.InstallEventing(ctx) },
		func() error { return cp.Create(ctx, "config/100-namespace.yaml") },
	} {
		if err := install(); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for _, pattern := range []string{serverless, serverlessPlain, serverlessEventing} {
		all, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range all {
			files = append(files, "config/"+file)
		}
	}
	if err := cp.Admit(ctx, files...); err != nil || len(files) != 6 {
		t.Errorf("%d files: %v", len(files), err)
	}
	for name, template := range map[string]corev1.PodSpec{
		"doorbell": doorbellDeployment(t).Spec.Template.Spec, "core": inFolder[*appsv1.Deployment](t, serverlessPlain)[0].Spec.Template.Spec,
		"core-of-serving":  coreService(t).Spec.Template.Spec.PodSpec,
		"unanswered-rings": inFolder[*appsv1.Deployment](t, serverlessEventing)[0].Spec.Template.Spec,
	} {
		if template.Containers[0].ReadinessProbe.HTTPGet.Port.String() == "0" { // Serving fills it in
			template.Containers[0].ReadinessProbe, template.Containers[0].LivenessProbe = nil, nil
		}
		admitPod(t, cp, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: template})
	}
	// As Eventing's webhook does it: with the features that its ConfigMap has by default, and a class for Brokers.
	ctx = feature.ToContext(apis.WithinCreate(ctx), feature.Flags{feature.DeliveryTimeout: feature.Enabled})
	for _, m := range decode(t, serverlessEventing) {
		o, ok := m.object.(apis.Validatable)
		if !ok {
			continue
		}
		if b, ok := o.(*eventingv1.Broker); ok {
			b.Annotations = map[string]string{eventing.BrokerClassKey: eventing.MTChannelBrokerClassValue}
		}
		if err := o.Validate(ctx); err != nil {
			t.Errorf("Eventing refuses %s: %v", m.GetName(), err)
		}
	}
}

func admitPod(t *testing.T, cp *controlplane.ControlPlane, pod *corev1.Pod) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}
