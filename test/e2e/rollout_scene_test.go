// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

var (
	pipelineRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
	taskRuns     = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "taskruns"}
	customRuns   = kit.CustomRuns
	gates        = schema.GroupVersionResource{Group: "knative-cdevents.dev", Version: "v1alpha1", Resource: "canarygates"}
)

// ran has the fields of a PipelineRun, TaskRun or CustomRun that the tests use.
type ran struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Params []nameValue
		// Status is a requested state, such as RunCancelled.
		Status string
	}
	Status struct {
		duckv1.Status
		Results []nameValue
	}
}

type nameValue struct {
	Name  string
	Value any
}

func (r ran) succeeded() (corev1.ConditionStatus, string) {
	if c := r.Status.GetCondition("Succeeded"); c != nil {
		return c.Status, c.Reason
	}
	return corev1.ConditionUnknown, ""
}

func (r ran) String() string {
	status, reason := r.succeeded()
	return r.Name + " " + string(status) + " " + reason + " " + compact(r.Status.Results)
}

// value returns the value of a param or a result; empty if there is none.
func value(all []nameValue, name string) string {
	for _, v := range all {
		if text, ok := v.Value.(string); ok && v.Name == name {
			return text
		}
	}
	return ""
}

// flow installs what docs/tekton.md describes.
func (s *scene) flow() {
	s.Helper()
	onlyInFull(s.T)
	if suite.guest {
		s.Skip("it needs the controller")
	}
	s.must(suite.Flows.InstallRollout(s.Context(), s.ns))
	s.Cleanup(func() { s.must(suite.Flows.UninstallRollout(context.WithoutCancel(s.Context()), s.ns)) })
	s.waitSource("rollouts")
}

func (s *scene) takePart() {
	s.Helper()
	s.must(suite.Flows.TakePart(s.Context(), s.ns))
}

// list lists runs: all, or those of a PipelineRun.
func (s *scene) list(ctx context.Context, of schema.GroupVersionResource, parent string) ([]ran, error) {
	options := metav1.ListOptions{}
	if parent != "" {
		options.LabelSelector = "tekton.dev/pipelineRun=" + parent
	}
	list, err := suite.Dynamic.Resource(of).Namespace(s.ns).List(ctx, options)
	if err != nil {
		return nil, err
	}
	all := make([]ran, len(list.Items))
	for i, item := range list.Items {
		data, err := json.Marshal(item.Object)
		if err == nil {
			err = json.Unmarshal(data, &all[i])
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b ran) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// await waits until the run of a PipelineRun's task matches.
func (s *scene) await(of schema.GroupVersionResource, run, task string, as func(ran) bool) ran {
	s.Helper()
	var found ran
	s.must(kit.Wait(s.Context(), 4*time.Minute, of.Resource+" of "+task, func(ctx context.Context) error {
		all, err := s.list(ctx, of, run)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r ran) bool { return r.Labels["tekton.dev/pipelineTask"] == task && as(r) })
		if i < 0 {
			return kit.NotYet("the runs are %v", all)
		}
		found = all[i]
		return nil
	}))
	return found
}

func exists(ran) bool { return true }

func done(r ran) bool { status, _ := r.succeeded(); return status != corev1.ConditionUnknown }

// started waits for the rollout that a Revision's event starts. Its name contains the Revision's UID.
func (s *scene) started(revision string) string {
	s.Helper()
	r, err := suite.Serving.ServingV1().Revisions(s.ns).Get(s.Context(), revision, metav1.GetOptions{})
	s.must(err)
	name := "rollout-" + string(r.UID)
	s.must(kit.Wait(s.Context(), patience, "rollout "+name, func(ctx context.Context) error {
		_, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return kit.NotYet("it does not exist")
		}
		return err
	}))
	return name
}

// again starts a rollout by hand from the Pipeline's sample, with optional changes.
func (s *scene) again(change func(run *unstructured.Unstructured)) string {
	s.Helper()
	text, err := os.ReadFile(suite.Path("config/tekton/pipeline/progressive-rollout/0.1/samples/run.yaml"))
	s.must(err)
	run := &unstructured.Unstructured{}
	s.must(yaml.Unmarshal(text, &run.Object))
	change(run)
	made, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).Create(s.Context(), run, metav1.CreateOptions{})
	s.must(err)
	return made.GetName()
}

// ask sets the requested state of a PipelineRun: Cancelled, CancelledRunFinally or StoppedRunFinally.
func (s *scene) ask(run, status string) {
	s.Helper()
	_, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).
		Patch(s.Context(), run, types.MergePatchType, []byte(`{"spec":{"status":"`+status+`"}}`), metav1.PatchOptions{})
	s.must(err)
}

// ended waits for the end of a rollout, requires a final split such as "1=100", and logs the runs.
func (s *scene) ended(run string, want corev1.ConditionStatus, traffic string) {
	s.Helper()
	var found ran
	s.must(kit.Wait(s.Context(), 14*time.Minute, "the end of "+run, func(ctx context.Context) error {
		all, err := s.list(ctx, pipelineRuns, "")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r ran) bool { return r.Name == run })
		if i < 0 || !done(all[i]) {
			return kit.NotYet("the runs are %v", all)
		}
		found = all[i]
		return nil
	}))
	s.say(run)
	if got, _ := found.succeeded(); got != want {
		s.Errorf("%s ended as %s", run, compact(found.Status.Conditions))
	}
	s.split(traffic)
}

// say logs the runs of a rollout.
func (s *scene) say(run string) {
	s.Helper()
	for _, of := range []schema.GroupVersionResource{taskRuns, customRuns} {
		all, err := s.list(s.Context(), of, run)
		s.must(err)
		for _, r := range all {
			s.Logf("%s", r)
		}
	}
}

// split requires the Route to have that split, by the numbers of the Revisions.
func (s *scene) split(want string) {
	s.Helper()
	route, err := suite.Serving.ServingV1().Routes(s.ns).Get(s.Context(), "cart", metav1.GetOptions{})
	s.must(err)
	var got []string
	for _, t := range route.Status.Traffic {
		if t.Percent != nil && *t.Percent > 0 {
			number, _ := strings.CutPrefix(t.RevisionName, "cart-0000")
			got = append(got, number+"="+compact(t.Percent))
		}
	}
	slices.Sort(got)
	if strings.Join(got, ",") != want || !route.IsReady() {
		s.Errorf("the traffic is %v, want %s", got, want)
	}
}
