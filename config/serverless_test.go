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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
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

func TestServerlessRunsWithoutPrivileges(t *testing.T) {
	t.Parallel()
	pod := doorbellDeployment(t).Spec.Template.Spec
	pod.Volumes = nil // the token, which TestServerlessIsWired checks
	checkPrivileges(t, "doorbell", pod)
	checkPrivileges(t, "core", coreService(t).Spec.Template.Spec.PodSpec)
	checkPrivileges(t, "core", inFolder[*appsv1.Deployment](t, serverlessPlain)[0].Spec.Template.Spec)
}

// What the programs may do is as little as their tests in reconciler/oneshot/receiver pass with. The core reads what the
// controller reads, and writes nothing that the controller does not write, but the number of its replicas.
func TestServerlessMayDoLittle(t *testing.T) {
	t.Parallel()
	rules := map[string][]string{}
	add := func(role string, all []rbacv1.PolicyRule) {
		for _, r := range all {
			checkExplicit(t, r)
			rules[role] = append(rules[role], strings.TrimSuffix(fmt.Sprint(r.Verbs, r.Resources, r.ResourceNames), " []"))
		}
	}
	for _, r := range inFolder[*rbacv1.ClusterRole](t, serverless) {
		add("everywhere "+strings.TrimPrefix(r.Name, "knative-cdevents-"), r.Rules)
	}
	for _, r := range inFolder[*rbacv1.Role](t, serverless) {
		add(r.Name, r.Rules)
	}
	want := map[string][]string{
		"everywhere core": {
			"[get list] [services routes revisions domainmappings]", "[get] [namespaces]", "[get list] [customresourcedefinitions]",
			"[get] [endpointslices] [kubernetes]", "[get list] [cdeventsources canarygates]", "[update] [cdeventsources/status]",
			"[get list] [customruns]", "[create] [tokenreviews]",
		},
		"everywhere doorbell": {
			"[list watch] [services routes revisions domainmappings]", "[list watch] [namespaces]", "[list watch] [cdeventsources canarygates]",
			"[list watch] [customruns]",
		},
		"core": {
			"[get list] [configmaps]", "[create delete get list update] [cdeventsubjects]", "[create get update] [cdeventbaselines]",
			"[get list] [canarygateruns shardplacements]", "[get patch] [deployments] [controller]",
		},
		"doorbell":         {"[list watch] [cdeventsubjects]", "[get patch] [leases] [doorbell]"},
		"controller-sleep": {"[get patch] [deployments] [controller]"},
	}
	if fmt.Sprint(rules) != fmt.Sprint(want) {
		t.Errorf("they may\n%v, want\n%v", rules, want)
	}

	bound := map[string]string{}
	for _, b := range inFolder[*rbacv1.ClusterRoleBinding](t, serverless) {
		bound["everywhere "+b.RoleRef.Name] = fmt.Sprint(b.Subjects)
	}
	for _, b := range inFolder[*rbacv1.RoleBinding](t, serverless) {
		bound[b.RoleRef.Name] = fmt.Sprint(b.Subjects)
	}
	to := func(account string) string {
		return fmt.Sprint([]rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}})
	}
	if want := map[string]string{
		"everywhere knative-cdevents-core": to("core"), "everywhere knative-cdevents-sinks": to("core"), "everywhere knative-cdevents-doorbell": to("doorbell"),
		"core": to("core"), "doorbell": to("doorbell"), "controller-sleep": to("controller"),
	}; fmt.Sprint(bound) != fmt.Sprint(want) {
		t.Errorf("bound are\n%v, want\n%v", bound, want)
	}
	everywhere, own := rulesOf(t, "controller")
	within(t, "core", inFolder[*rbacv1.ClusterRole](t, serverless)[0].Rules, everywhere, "customruns") // those are in config/tekton
	within(t, "core", inFolder[*rbacv1.Role](t, serverless)[0].Rules, own, "deployments")
}

// within checks that rights are no more than others, apart from one resource.
func within(t *testing.T, who string, rights, others []rbacv1.PolicyRule, but string) {
	t.Helper()
	has := map[string]bool{}
	for _, r := range others {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					has[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
	for _, r := range rights {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				if !has[verb+" "+r.APIGroups[0]+"/"+resource] && resource != but {
					t.Errorf("%s may %s %s, and the controller may not", who, verb, resource)
				}
			}
		}
	}
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

// TestSleepingChangesNothingElse shows that who may put the controller to sleep, may not run something else in its place.
func TestSleepingChangesNothingElse(t *testing.T) {
	cp, ctx := controlplane.Start(t), t.Context()
	if err := cp.InstallServing(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cp.Create(ctx, "config/100-namespace.yaml", "config/500-controller.yaml", "config/optional/serverless/200-roles.yaml"); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"theirs":"kept"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"core", "controller"} {
		as := cp.As("system:serviceaccount:"+namespace+":"+account, "system:serviceaccounts")
		as.WarningHandler = rest.NoWarnings{}
		kube, err := kubernetes.NewForConfig(as)
		if err != nil {
			t.Fatal(err)
		}
		patch := func(text string) error {
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		image := func(tag int) string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","image":"example.com/other:%d"}]}}}}`, tag)
		}
		tag := 0
		for ; tag < 300 && patch(image(tag)) == nil; tag++ { // the API server reads policies after a moment
			time.Sleep(100 * time.Millisecond)
		}
		for what, text := range map[string]string{
			"an image": image(tag), "a label of pods": `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			"a label": `{"metadata":{"labels":{"a":"b"}}}`, "a finalizer": `{"metadata":{"finalizers":["example.com/a"]}}`,
			"the strategy": `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
			// A rollout that an administrator begins would never be done.
			"a pause": `{"spec":{"paused":true}}`, "a delay": `{"spec":{"minReadySeconds":7}}`,
			"a deadline": `{"spec":{"progressDeadlineSeconds":500}}`, "the history": `{"spec":{"revisionHistoryLimit":0}}`,
			// Kubernetes' own controller takes the pods of an earlier revision then, with an image that has been replaced.
			"a rollback":            `{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"1"}}}`,
			"another's annotation":  `{"metadata":{"annotations":{"theirs":"other"}}}`,
			"no annotation":         `{"metadata":{"annotations":{"theirs":null}}}`,
			"the last applied spec": `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`,
		} {
			if err := patch(text); err == nil || !strings.Contains(err.Error(), "only the replicas and their own annotations") {
				t.Errorf("%s sets %s: %v", account, what, err)
			}
		}
		for _, subresource := range []string{"scale", "status"} {
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, subresource)
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s patches the %s: %v", account, subresource, err)
			}
		}
		force := metav1.PatchOptions{FieldManager: account, Force: ptr.To(true)}
		for kind, text := range map[types.PatchType]string{
			types.JSONPatchType:           `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other"}]`,
			types.StrategicMergePatchType: image(tag),
			types.ApplyPatchType:          `{"apiVersion":"apps/v1","kind":"Deployment",` + image(tag)[1:],
		} {
			opts := metav1.PatchOptions{}
			if kind == types.ApplyPatchType {
				opts = force
			}
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", kind, []byte(text), opts)
			if err == nil || !strings.Contains(err.Error(), "only the replicas and their own annotations") {
				t.Errorf("%s sets an image by %s: %v", account, kind, err)
			}
		}
		if err := patch(`{"metadata":{"annotations":{"knative-cdevents.dev/awake":"asleep"}},"spec":{"replicas":0}}`); err != nil {
			t.Errorf("%s cannot put the controller to sleep: %v", account, err)
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
