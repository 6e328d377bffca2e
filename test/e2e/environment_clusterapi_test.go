// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const (
	clusterRequested    = "dev.cdeventsx.clusterapi-cluster.created.0.1.0"
	environmentCreated  = "dev.cdevents.environment.created.0.3.0"
	environmentModified = "dev.cdevents.environment.modified.0.3.0"
	environmentDeleted  = "dev.cdevents.environment.deleted.0.3.0"
)

// founded are the events of an environment that becomes ready.
var founded = []string{clusterRequested, environmentCreated}

// ofEnvironment selects the events of the environment with that name, and their incidents.
func ofEnvironment(name string) func(event) bool {
	return func(e event) bool {
		return e.cd.CustomData.Environment != nil && e.cd.CustomData.Environment.Name == name
	}
}

// Paths of a cluster with a topology.
const (
	pools    = "/spec/topology/workers/machineDeployments"
	workers  = pools + "/0/replicas"
	topology = "/spec/topology/version"
)

// fleet is a namespace with clusters of one release of Cluster API.
type fleet struct {
	*scene
	release kit.ClusterAPI
}

// TestClusterAPI follows clusters of Cluster API from their creation to their deletion. Each release is installed while
// the controller runs, and its kinds are removed while the controller watches them.
func TestClusterAPI(t *testing.T) {
	environmentsBySide(t)
	if !suite.full || !suite.Own() {
		t.Skip("it installs Cluster API on the cluster made by test/cluster: make e2e-full")
	}
	grantEnvironments(t)
	for _, release := range []kit.ClusterAPI{kit.ClusterAPI113, kit.ClusterAPI110} {
		t.Run(release.Part, func(t *testing.T) {
			f := fleet{newScene(t), release}
			f.source("source", service("sink"), production)
			t.Cleanup(func() {
				if err := suite.Environments.RemoveClusterAPI(context.WithoutCancel(t.Context()), release); err != nil {
					t.Error(err)
				}
			})
			f.must(suite.Environments.InstallClusterAPI(t.Context(), release))
			f.must(suite.Environments.SteadyMachines(t.Context(), release))
			class, err := release.Class("memory")
			f.must(err)
			f.must(suite.Apply(t.Context(), f.ns, class))

			f.create()
			f.scale()
			f.upgrade()
			f.pause()
			f.fail()
			f.degrade()
			f.stuck()
			f.controllerDown()
			f.removeKinds()
			onlyReads(t, "cluster.x-k8s.io")
		})
	}
}

// grantEnvironments lets the controller read the kinds of environments until the end of the test.
func grantEnvironments(t *testing.T) {
	t.Helper()
	text, err := suite.Environments.GrantEnvironments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.Unapply(context.WithoutCancel(t.Context()), kit.Namespace, text); err != nil {
			t.Error(err)
		}
	})
}

// create creates a cluster of a class, one without a topology, and one that never becomes ready.
func (f fleet) create() {
	f.Helper()
	// Longer than the others need. A limit that is shortened while an object waits applies to its next update only.
	f.configure(map[string]string{"incident-environment-not-created-after": "150s"})
	f.apply(f.release.Cluster("prod", "memory", olderKubernetes, kit.QuickWorkers))
	f.apply(f.release.Classless("plain", olderKubernetes))
	f.apply(f.release.Cluster("stuck", "memory", olderKubernetes, kit.SlowWorkers))
	f.settled("prod")
	f.settled("plain")
	for _, name := range []string{"prod", "plain"} {
		events := f.sink.exactly(f.T, founded, ofEnvironment(name))
		for _, e := range events {
			conforms(f.T, e, "0.5.1")
			capture(f.T, e)
		}
		ready := events[1]
		o, err := suite.Dynamic.Resource(f.release.Clusters()).Namespace(f.ns).Get(f.Context(), name, metav1.GetOptions{})
		f.must(err)
		env := ready.cd.CustomData.Environment
		if env.UID != string(o.GetUID()) || env.Kind != "Cluster" || env.Namespace != f.ns || env.Version != olderKubernetes || env.Provider != "cluster-api" {
			f.Errorf("environment.created of %s says %s", name, compact(env))
		}
		host, _, _ := unstructured.NestedString(o.Object, "spec", "controlPlaneEndpoint", "host") // checked below
		if host == "" || !strings.Contains(ready.cd.Subject.Content.URI, host) {
			f.Errorf("environment.created of %s has the URI %q; the endpoint's host is %s", name, ready.cd.Subject.Content.URI, host)
		}
	}
}

// scale changes the number of workers, which is not a change of the environment.
func (f fleet) scale() {
	f.Helper()
	f.change("prod", "replace", workers, 3)
	f.settled("prod")
	f.change("prod", "replace", workers, 1)
	f.settled("prod")
	f.sink.exactly(f.T, founded, ofEnvironment("prod"))
}

// upgrade changes the version of Kubernetes. The event must not come before every machine has it.
func (f fleet) upgrade() {
	f.Helper()
	f.change("prod", "replace", topology, newerKubernetes)
	f.must(suite.Environments.PatchControlPlane(f.Context(), f.release, f.ns, "plain", "replace", "/spec/version", newerKubernetes))
	for _, name := range []string{"prod", "plain"} {
		want := slices.Concat(founded, []string{environmentModified})
		f.must(kit.Wait(f.Context(), 5*time.Minute, "the upgrade of "+name, func(ctx context.Context) error {
			all, err := f.sink.events(ctx)
			if err != nil {
				return err
			}
			if got := choose(all, ofEnvironment(name)); len(got) < len(want) {
				return kit.NotYet("%d events arrived", len(got))
			}
			return nil
		}))
		f.upgraded(name)
		f.settled(name)
		events := f.sink.exactly(f.T, want, ofEnvironment(name))
		modified := events[len(events)-1]
		conforms(f.T, modified, "0.5.1")
		capture(f.T, modified)
		env := modified.cd.CustomData.Environment
		if env.Version != newerKubernetes || env.Previous == nil || env.Previous.Version != olderKubernetes || !slices.Equal(env.Changed, []string{"version"}) {
			f.Errorf("environment.modified of %s says %s", name, compact(env))
		}
	}
}

// upgraded fails if a machine of the cluster has the older version.
func (f fleet) upgraded(name string) {
	f.Helper()
	machines := f.release.Clusters()
	machines.Resource = "machines"
	list, err := suite.Dynamic.Resource(machines).Namespace(f.ns).List(f.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=" + name})
	f.must(err)
	for _, m := range list.Items {
		if v, _, _ := unstructured.NestedString(m.Object, "spec", "version"); v != newerKubernetes && m.GetDeletionTimestamp() == nil {
			f.Errorf("environment.modified of %s came while machine %s had version %s", name, m.GetName(), v)
		}
	}
	if len(list.Items) == 0 {
		f.Errorf("%s has no machines", name)
	}
}

// pause pauses the cluster, changes it, and goes on.
func (f fleet) pause() {
	f.Helper()
	f.change("prod", "add", "/spec/paused", true)
	f.wait("prod", f.release.ClusterIs("Paused", metav1.ConditionTrue))
	f.change("prod", "replace", workers, 2)
	time.Sleep(10 * time.Second)
	f.change("prod", "replace", "/spec/paused", false)
	f.settled("prod")
	f.sink.exactly(f.T, slices.Concat(founded, []string{environmentModified}), ofEnvironment("prod"))
}

// fail stops the program that the API servers of all clusters run in.
func (f fleet) fail() {
	f.Helper()
	f.configure(map[string]string{"incident-environment-outage-after": "10s", "incident-environment-degraded-after": "30m"})
	f.must(suite.Environments.SignalMachines(f.Context(), "STOP"))
	stopped := time.Now()
	f.Cleanup(func() {
		if err := suite.Environments.SignalMachines(context.WithoutCancel(f.Context()), "CONT"); err != nil {
			f.Error(err)
		}
	})
	f.wait("prod", f.release.ClusterIs("RemoteConnectionProbe", metav1.ConditionFalse))
	f.wait("plain", f.release.ClusterIs("RemoteConnectionProbe", metav1.ConditionFalse))
	outage := slices.Concat(founded, []string{environmentModified, detected})
	for _, name := range []string{"prod", "plain"} {
		events := f.sink.exactly(f.T, outage, ofEnvironment(name))
		incident := events[len(events)-1]
		conforms(f.T, incident, "0.5.1")
		capture(f.T, incident)
		if kind := incident.cd.CustomData.Incident.Kind; kind != "environment-outage" {
			f.Errorf("the incident of %s is %s", name, kind)
		}
		if after := incident.Time.Sub(stopped); after < 10*time.Second {
			f.Errorf("the incident of %s was announced after %s", name, after)
		}
	}
	f.must(suite.Environments.SignalMachines(f.Context(), "CONT"))
	f.settled("prod")
	f.settled("plain")
	for _, name := range []string{"prod", "plain"} {
		events := f.sink.exactly(f.T, append(outage, resolved), ofEnvironment(name))
		capture(f.T, events[len(events)-1])
	}
}

// degrade adds a pool whose machine never starts, and removes it again. Such a pool was never in place.
func (f fleet) degrade() {
	f.Helper()
	f.configure(map[string]string{"incident-environment-degraded-after": "20s"})
	before := slices.Concat(founded, []string{environmentModified, detected, resolved})
	f.change("prod", "add", pools+"/-", map[string]any{"class": kit.SlowWorkers, "name": "red", "replicas": 1})
	f.wait("prod", f.release.ClusterIs("Available", metav1.ConditionFalse))
	events := f.sink.exactly(f.T, append(before, detected), ofEnvironment("prod"))
	if kind := events[len(events)-1].cd.CustomData.Incident.Kind; kind != "environment-degraded" {
		f.Errorf("the incident is %s", kind)
	}
	f.change("prod", "remove", pools+"/1", nil)
	f.settled("prod")
	f.sink.exactly(f.T, append(before, detected, resolved), ofEnvironment("prod"))
}

// stuck is about the cluster that never became ready.
func (f fleet) stuck() {
	f.Helper()
	events := f.sink.exactly(f.T, []string{clusterRequested, detected}, ofEnvironment("stuck"))
	if kind := events[1].cd.CustomData.Incident.Kind; kind != "environment-not-created" {
		f.Errorf("the incident is %s", kind)
	}
	f.remove("stuck")
	// It was never there, so that it is gone is no event.
	f.sink.exactly(f.T, []string{clusterRequested, detected, resolved}, ofEnvironment("stuck"))
}

// controllerDown deletes a cluster and creates another one while no controller runs.
func (f fleet) controllerDown() {
	f.Helper()
	f.withoutController(func() {
		f.remove("plain")
		f.apply(f.release.Cluster("young", "memory", newerKubernetes, kit.QuickWorkers))
		f.settled("young")
		f.change("prod", "replace", workers, 1)
	})

	f.sink.exactly(f.T, founded, ofEnvironment("young"))
	events := f.sink.exactly(f.T, slices.Concat(founded, []string{environmentModified, detected, resolved, environmentDeleted}), ofEnvironment("plain"))
	gone := events[len(events)-1]
	conforms(f.T, gone, "0.5.1")
	capture(f.T, gone)
	// A restart is no change of what has not changed.
	f.sink.exactly(f.T, slices.Concat(founded, []string{environmentModified, detected, resolved, detected, resolved}), ofEnvironment("prod"))
}

// removeKinds deletes one cluster, and then the CRD of the other one with it.
func (f fleet) removeKinds() {
	f.Helper()
	f.remove("prod")
	f.sink.exactly(f.T, slices.Concat(founded, []string{environmentModified, detected, resolved, detected, resolved, environmentDeleted}), ofEnvironment("prod"))
	f.must(suite.DeleteCRD(f.Context(), f.release.Clusters().GroupResource().String()))
	f.sink.exactly(f.T, slices.Concat(founded, []string{environmentDeleted}), ofEnvironment("young"))
	// All else goes on.
	f.deploy("shop")
	f.sink.exactly(f.T, birth, about("shop"))
}

func (f fleet) apply(text string, err error) {
	f.Helper()
	f.must(err)
	f.must(suite.Apply(f.Context(), f.ns, text))
}

func (f fleet) wait(name string, want func(*unstructured.Unstructured) error) {
	f.Helper()
	f.must(suite.Environments.WaitCluster(f.Context(), f.release, f.ns, name, 6*time.Minute, want))
}

// settled waits until the last change of the cluster is rolled out. Some seconds after a change, its conditions still
// look as before.
func (f fleet) settled(name string) {
	f.Helper()
	time.Sleep(5 * time.Second)
	f.wait(name, f.release.Settled)
}

// change changes a cluster with a topology.
func (f fleet) change(name, op, path string, value any) {
	f.Helper()
	f.must(suite.Environments.PatchCluster(f.Context(), f.release, f.ns, name, op, path, value))
}

func (f fleet) remove(name string) {
	f.Helper()
	f.must(suite.Dynamic.Resource(f.release.Clusters()).Namespace(f.ns).Delete(f.Context(), name, metav1.DeleteOptions{}))
	f.must(suite.Environments.WaitClusterGone(f.Context(), f.release, f.ns, name, 3*time.Minute))
}
