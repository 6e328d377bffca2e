// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestEnvironmentFlow follows a new cluster of Cluster API into the flow that begins with it: its Pipeline lists the
// nodes of the new cluster.
func TestEnvironmentFlow(t *testing.T) {
	environmentsBySide(t)
	if !suite.full || !suite.Own() {
		t.Skip("it installs Cluster API on the cluster made by test/cluster: make e2e-full")
	}
	grantEnvironments(t)
	f := fleet{newScene(t), kit.ClusterAPI113}
	installed, err := suite.Environments.HasClusterAPI(t.Context(), f.release)
	f.must(err)
	t.Cleanup(func() {
		if installed {
			return
		}
		if err := suite.Environments.RemoveClusterAPI(context.WithoutCancel(t.Context()), f.release); err != nil {
			t.Error(err)
		}
	})
	f.must(suite.Environments.InstallClusterAPI(t.Context(), f.release))
	f.readable("cluster.cluster.x-k8s.io")
	f.source("source", service("sink"), production)
	f.must(suite.Flows.InstallEnvironmentFlow(t.Context(), f.ns))
	t.Cleanup(func() { f.must(suite.Flows.UninstallEnvironmentFlow(context.WithoutCancel(t.Context()), f.ns)) })
	f.waitSource("environments")
	f.apply(f.release.Class("memory"))
	f.apply(f.release.Annotated("prod", "memory", olderKubernetes, kit.QuickWorkers, map[string]string{
		cdevents.AnnotationCommitSHA: "9fceb02d0ae598e95dc970b74767f19372d61af8", cdevents.AnnotationRepository: "https://git.example.com/platform/fleet",
	}))
	f.apply(f.release.Cluster("stray", "memory", olderKubernetes, kit.QuickWorkers))

	run := f.begun("prod", corev1.ConditionTrue)
	f.lists(run)
	f.foreign()
	f.repeat(run)
	f.end(run)
}

// begun waits for the end of the run that a cluster begins.
func (f fleet) begun(cluster string, want corev1.ConditionStatus) ran {
	f.Helper()
	f.settled(cluster)
	o, err := suite.Dynamic.Resource(f.release.Clusters()).Namespace(f.ns).Get(f.Context(), cluster, metav1.GetOptions{})
	f.must(err)
	name := "new-environment-" + string(o.GetUID())
	var found ran
	f.must(kit.Wait(f.Context(), 4*time.Minute, "the end of "+name, func(ctx context.Context) error {
		all, err := f.list(ctx, pipelineRuns, "")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r ran) bool { return r.Name == name })
		if i < 0 || !done(all[i]) {
			return kit.NotYet("the runs are %v", all)
		}
		found = all[i]
		return nil
	}))
	if got, _ := found.succeeded(); got != want {
		f.Errorf("the run of %s ended as %s", cluster, compact(found.Status.Conditions))
	}
	return found
}

// lists requires the results of a run to be the nodes of the new cluster. Its machines have the same names as its
// nodes.
func (f fleet) lists(run ran) {
	f.Helper()
	machines := f.release.Clusters()
	machines.Resource = "machines"
	list, err := suite.Dynamic.Resource(machines).Namespace(f.ns).List(f.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=prod"})
	f.must(err)
	nodes := value(run.Status.Results, "nodes")
	for _, m := range list.Items {
		if !strings.Contains(nodes, m.GetName()) {
			f.Errorf("the nodes are %q, without %s", nodes, m.GetName())
		}
	}
	if count := value(run.Status.Results, "count"); count != "2" || len(list.Items) != 2 || strings.Count(nodes, "\n") != 2 {
		f.Errorf("there are %s nodes %q, and %d machines", count, nodes, len(list.Items))
	}
	say("the flow recorded the nodes %q", nodes)
	tasks, err := f.list(f.Context(), taskRuns, run.Name)
	f.must(err)
	pods, err := suite.Kube.CoreV1().Pods(f.ns).List(f.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + run.Name})
	f.must(err)
	if len(tasks) != 1 || len(pods.Items) != 1 || pods.Items[0].Spec.ServiceAccountName != "new-environment" {
		f.Errorf("the run has %d tasks, in the pods %s", len(tasks), compact(pods.Items))
	}
}

// foreign requires the run of a cluster whose Secret the Role does not name to be denied.
func (f fleet) foreign() {
	f.Helper()
	run := f.begun("stray", corev1.ConditionFalse)
	pods, err := suite.Kube.CoreV1().Pods(f.ns).List(f.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + run.Name})
	f.must(err)
	if len(pods.Items) != 1 {
		f.Fatalf("the run of stray has %d pods", len(pods.Items))
	}
	said, err := suite.Kube.CoreV1().Pods(f.ns).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "step-list"}).DoRaw(f.Context())
	f.must(err)
	if !strings.Contains(string(said), `secrets "stray-kubeconfig" is forbidden`) {
		f.Errorf("the run of stray says: %s", said)
	}
}

// repeat sends the events of the same environments again, in the other mode. No run begins, and none begins anew.
func (f fleet) repeat(before ran) {
	f.Helper()
	to := duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "triggers.tekton.dev/v1beta1", Kind: "EventListener", Name: "environments"}}
	again := func(spec *v1alpha1.CDEventSourceSpec) {
		format := eventingduckv1.DeliveryFormatJson
		spec.Delivery = &eventingduckv1.DeliverySpec{Format: &format}
		spec.Replay = v1alpha1.ReplayCurrent
	}
	f.source("again", to, again)
	f.source("second", uri("http://sink."+f.ns+".svc.cluster.local/again"), again)
	f.sink.atLeast(f.T, []string{environmentCreated}, at("/again"), ofEnvironment("prod"))
	time.Sleep(10 * time.Second) // for the listener
	f.sole(before)
}

// sole requires that no other run has begun.
func (f fleet) sole(before ran) {
	f.Helper()
	all, err := f.list(f.Context(), pipelineRuns, "")
	f.must(err)
	if len(all) != 2 || !slices.ContainsFunc(all, func(r ran) bool { return r.UID == before.UID && done(r) }) {
		f.Errorf("after the events were repeated, the runs are %v; before, prod had %s", all, before)
	}
}

// end upgrades and deletes the cluster, which begins nothing.
func (f fleet) end(before ran) {
	f.Helper()
	f.change("prod", "replace", topology, newerKubernetes)
	f.settled("prod")
	f.sink.atLeast(f.T, slices.Concat(founded, []string{environmentModified}), at("/"), ofEnvironment("prod"))
	f.remove("prod")
	for _, e := range f.sink.exactly(f.T, slices.Concat(founded, []string{environmentModified, environmentDeleted}), at("/"), ofEnvironment("prod")) {
		conforms(f.T, e, "0.5.1")
		capture(f.T, e)
	}
	f.sole(before)
}
