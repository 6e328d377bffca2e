// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// The versions of Kubernetes that the tests' clusters have at first and after an upgrade.
const (
	olderKubernetes = "v1.32.4"
	newerKubernetes = "v1.33.1"
)

// seen is one update of an object, as a watch delivered it.
type seen struct {
	// After is the time since the story began, in seconds.
	After  float64         `json:"after"`
	Type   watch.EventType `json:"type"`
	Object map[string]any  `json:"object"`
}

// recorder keeps all updates of the objects with one name, in the order of their arrival.
type recorder struct {
	began time.Time
	name  string

	mu  sync.Mutex
	all []seen
}

func (r *recorder) add(e watch.Event) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || o.GetName() != r.name {
		return
	}
	o.SetManagedFields(nil)
	o.SetNamespace("fleet")
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, seen{time.Since(r.began).Round(10 * time.Millisecond).Seconds(), e.Type, o.Object})
}

// story returns what was seen since the last call; each begins with the last state of the one before.
func (r *recorder) story() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.all
	last := map[any]seen{}
	for _, s := range told {
		last[s.Object["kind"]] = s
	}
	r.began, r.all = time.Now(), nil
	for _, s := range last {
		s.After, s.Type = 0, watch.Added
		r.all = append(r.all, s)
	}
	return told
}

// TestCaptureClusterAPI records the states of Cluster API's clusters, for the tests of reconciler/environment:
// make capture-environments. It needs no controller.
func TestCaptureClusterAPI(t *testing.T) {
	dir := os.Getenv("E2E_CAPTURE_ENVIRONMENTS")
	if dir == "" {
		t.Skip("make capture-environments records the states of clusters")
	}
	for folder, release := range map[string]kit.ClusterAPI{"clusterapi-1.10": kit.ClusterAPI110, "clusterapi-1.13": kit.ClusterAPI113} {
		t.Run(folder, func(t *testing.T) {
			c := capturing{fleet{emptyScene(t), release}, filepath.Join(dir, folder)}
			c.must(os.MkdirAll(c.dir, 0o755)) //nolint:gosec // files for the repository
			c.must(suite.Environments.InstallClusterAPI(t.Context(), release))
			t.Cleanup(func() {
				if err := suite.Environments.RemoveClusterAPI(context.WithoutCancel(t.Context()), release); err != nil {
					t.Error(err)
				}
			})
			c.must(suite.Environments.SteadyMachines(t.Context(), release))
			class, err := release.Class("memory")
			c.must(err)
			c.must(suite.Apply(t.Context(), c.ns, class))
			t.Run("together", func(t *testing.T) {
				for name, tell := range map[string]func(capturing){
					"life": capturing.life, "stuck": capturing.stuck, "classless": capturing.classless, "unclassed": capturing.unclassed,
				} {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						own := *c.scene
						own.T = t
						tell(capturing{fleet{&own, c.release}, c.dir})
					})
				}
			})
			c.unreachable()
		})
	}
}

type capturing struct {
	fleet
	dir string
}

// record watches the cluster with that name, and its control plane if it has the same name.
func (c capturing) record(name string) *recorder {
	c.Helper()
	r := &recorder{began: time.Now(), name: name}
	for _, of := range []schema.GroupVersionResource{c.release.Clusters(), c.release.ControlPlanes()} {
		w, err := suite.Dynamic.Resource(of).Namespace(c.ns).Watch(c.Context(), metav1.ListOptions{})
		c.must(err)
		c.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				r.add(e)
			}
		}()
	}
	return r
}

// write ends a story.
func (c capturing) write(r *recorder, name string) {
	c.Helper()
	time.Sleep(time.Second) // the last update may be on its way
	writeStory(c.scene, filepath.Join(c.dir, name+".json"), r.story())
}

// writeStory writes a line for each update.
func writeStory(s *scene, path string, all []seen) {
	s.Helper()
	var b bytes.Buffer
	for i, u := range all {
		line, err := json.Marshal(u)
		s.must(err)
		b.WriteString(map[bool]string{true: "[", false: ",\n"}[i == 0])
		b.Write(line)
	}
	b.WriteString("]\n")
	s.must(os.WriteFile(path, b.Bytes(), 0o644)) //nolint:gosec // files for the repository
	say("%s: %d states in %d KiB, the last after %.0fs", filepath.Base(path), len(all), b.Len()>>10, all[len(all)-1].After)
}

// rest waits until a cluster is as wanted, and then a little longer, for conditions that lag.
func (c capturing) rest(name string, want func(*unstructured.Unstructured) error) {
	c.Helper()
	time.Sleep(5 * time.Second) // conditions that look finished before anything has begun
	c.wait(name, want)
	time.Sleep(5 * time.Second)
}

// life is what happens to a cluster that is well.
func (c capturing) life() {
	r := c.record("life")
	c.apply(c.release.Cluster("life", "memory", olderKubernetes, kit.QuickWorkers))
	c.rest("life", c.release.Settled)
	c.write(r, "created")

	c.change("life", "replace", workers, 3)
	c.rest("life", c.release.Settled)
	c.change("life", "replace", workers, 1)
	c.rest("life", c.release.Settled)
	c.write(r, "scaled")

	c.change("life", "add", pools+"/-", map[string]any{"class": kit.QuickWorkers, "name": "green", "replicas": 1})
	c.rest("life", c.release.Settled)
	c.change("life", "remove", pools+"/1", nil)
	c.rest("life", c.release.Settled)
	c.write(r, "pools")

	c.change("life", "replace", topology, newerKubernetes)
	c.rest("life", c.release.Settled)
	c.write(r, "upgraded")

	c.change("life", "add", "/spec/paused", true)
	c.rest("life", c.release.ClusterIs("Paused", metav1.ConditionTrue))
	c.change("life", "replace", workers, 2)
	time.Sleep(15 * time.Second)
	c.change("life", "replace", "/spec/paused", false)
	c.rest("life", c.release.Settled)
	c.write(r, "paused")

	// A machine of the pool cannot start: the cluster loses its availability and gets it back.
	c.change("life", "add", pools+"/-", map[string]any{"class": kit.SlowWorkers, "name": "red", "replicas": 1})
	c.rest("life", c.release.ClusterIs("Available", metav1.ConditionFalse))
	time.Sleep(90 * time.Second)
	c.change("life", "remove", pools+"/1", nil)
	c.rest("life", c.release.Settled)
	c.write(r, "stalled")

	c.remove("life")
	c.write(r, "deleted")
}

// stuck is a cluster whose workers never start.
func (c capturing) stuck() {
	r := c.record("stuck")
	c.apply(c.release.Cluster("stuck", "memory", olderKubernetes, kit.SlowWorkers))
	c.rest("stuck", c.release.ClusterIs("ControlPlaneAvailable", metav1.ConditionTrue))
	time.Sleep(2 * time.Minute)
	c.remove("stuck")
	c.write(r, "stuck")
}

// classless is a cluster whose version stands in its control plane's object.
func (c capturing) classless() {
	r := c.record("classless")
	c.apply(c.release.Classless("classless", olderKubernetes))
	c.rest("classless", c.release.Settled)
	c.write(r, "classless-created")

	c.must(suite.Environments.PatchControlPlane(c.Context(), c.release, c.ns, "classless", "replace", "/spec/version", newerKubernetes))
	c.must(kit.Wait(c.Context(), 8*time.Minute, "the upgrade", func(ctx context.Context) error {
		o, err := suite.Dynamic.Resource(c.release.ControlPlanes()).Namespace(c.ns).Get(ctx, "classless", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, "status", "version"); got != newerKubernetes {
			return kit.NotYet("the version is %s", got)
		}
		return nil
	}))
	c.rest("classless", c.release.Settled)
	c.write(r, "classless-upgraded")

	c.remove("classless")
	c.write(r, "classless-deleted")
}

// unclassed is a cluster whose class is created too late.
func (c capturing) unclassed() {
	r := c.record("unclassed")
	c.apply(c.release.Cluster("unclassed", "late", olderKubernetes, kit.QuickWorkers))
	time.Sleep(45 * time.Second)
	c.apply(c.release.Class("late"))
	c.rest("unclassed", c.release.Settled)
	c.write(r, "class-missing")
	c.remove("unclassed")
}

// unreachable is a cluster whose API server stops answering for a while.
func (c capturing) unreachable() {
	c.apply(c.release.Cluster("unreachable", "memory", olderKubernetes, kit.QuickWorkers))
	c.rest("unreachable", c.release.Settled)
	r := c.record("unreachable")
	time.Sleep(2 * time.Second) // the watch begins with the current state
	c.must(suite.Environments.SignalMachines(c.Context(), "STOP"))
	c.Cleanup(func() {
		if err := suite.Environments.SignalMachines(context.WithoutCancel(c.Context()), "CONT"); err != nil {
			c.Error(err)
		}
	})
	err := suite.Environments.WaitCluster(c.Context(), c.release, c.ns, "unreachable", 6*time.Minute, c.release.ClusterIs("RemoteConnectionProbe", metav1.ConditionFalse))
	time.Sleep(30 * time.Second)
	c.must(suite.Environments.SignalMachines(c.Context(), "CONT"))
	c.must(err)
	c.rest("unreachable", c.release.ClusterIs("RemoteConnectionProbe", metav1.ConditionTrue))
	c.rest("unreachable", c.release.Settled)
	c.write(r, "unreachable")
	c.remove("unreachable")
}
