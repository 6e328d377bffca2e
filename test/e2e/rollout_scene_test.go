//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	customRuns   = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}
	listeners    = schema.GroupVersionResource{Group: "triggers.tekton.dev", Version: "v1beta1", Resource: "eventlisteners"}
	gates        = schema.GroupVersionResource{Group: "knative-cdevents.dev", Version: "v1alpha1", Resource: "canarygates"}
)

// ran is what the tests look at of a PipelineRun, TaskRun or CustomRun.
type ran struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Params []nameValue
		// Status is what was asked of it, such as RunCancelled.
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

// value of a param or a result, empty if there is none.
func value(all []nameValue, name string) string {
	for _, v := range all {
		if text, ok := v.Value.(string); ok && v.Name == name {
			return text
		}
	}
	return ""
}

// applied are the files that the installation of docs/tekton.md applies.
var applied = regexp.MustCompile(`-f (config/tekton/\S+)`)

// flow installs what docs/tekton.md installs, by the files as they stand there but for the namespace and the image.
func (s *scene) flow() {
	s.Helper()
	onlyInFull(s.T)
	if suite.guest {
		s.Skip("it needs the controller")
	}
	ctx := s.Context()
	image, err := suite.Image(ctx, "./cmd/traffic")
	s.must(err)
	page, err := os.ReadFile(suite.Path("docs", "tekton.md"))
	s.must(err)
	_, install, _ := strings.Cut(string(page), "\n## Install\n")
	install, _, _ = strings.Cut(install, "\n## ")
	for _, found := range applied.FindAllStringSubmatch(install, -1) {
		text := s.pieces(found[1], "ko://github.com/knative-cdevents/knative-cdevents/cmd/traffic", image)
		s.must(suite.Apply(ctx, s.ns, text))
		if strings.HasPrefix(filepath.Base(found[1]), "200-") { // rights in the whole cluster
			s.Cleanup(func() { s.must(suite.Unapply(context.WithoutCancel(ctx), s.ns, text)) })
		}
	}
	bindings := suite.Kube.RbacV1().ClusterRoleBindings()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rollout-listener-" + s.ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "knative-cdevents-rollout-listener"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns, Name: "rollout-listener"}},
	}
	_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() { s.must(bindings.Delete(context.WithoutCancel(ctx), binding.Name, metav1.DeleteOptions{})) })
	s.must(waitReady(ctx, listeners, s.ns, "rollouts"))
	s.waitSource("rollouts")
}

// pieces reads a file, or all YAML of a folder.
func (s *scene) pieces(path, old, replacement string) string {
	s.Helper()
	checkout, files := os.DirFS(suite.Path()), []string{path}
	if strings.HasSuffix(path, "/") {
		var err error
		files, err = fs.Glob(checkout, path+"*.yaml")
		s.must(err)
	}
	var all []string
	for _, file := range files {
		content, err := fs.ReadFile(checkout, file)
		s.must(err)
		all = append(all, strings.ReplaceAll(string(content), old, replacement))
	}
	return strings.Join(all, "\n---\n")
}

var takesPart = regexp.MustCompile(`(?s)kubectl patch ksvc cart -n shop --type merge -p '(.*?)'\n`)

// takePart makes Service cart take part, by the command of docs/tekton.md.
func (s *scene) takePart() {
	s.Helper()
	page, err := os.ReadFile(suite.Path("docs", "tekton.md"))
	s.must(err)
	found := takesPart.FindSubmatch(page)
	if found == nil {
		s.Fatal("docs/tekton.md does not say how a Service takes part")
	}
	_, err = suite.Serving.ServingV1().Services(s.ns).Patch(s.Context(), "cart", types.MergePatchType, found[1], metav1.PatchOptions{})
	s.must(err)
	_, err = suite.WaitService(s.Context(), s.ns, "cart", "")
	s.must(err)
}

// list reads runs; with a PipelineRun's name, its own.
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

// await waits until a run of a PipelineRun's task is as wanted.
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
			return kit.NotYet("there are %v", all)
		}
		found = all[i]
		return nil
	}))
	return found
}

func exists(ran) bool { return true }

func done(r ran) bool { status, _ := r.succeeded(); return status != corev1.ConditionUnknown }

// started waits for the rollout that the event of a Revision starts, which bears its UID.
func (s *scene) started(revision string) string {
	s.Helper()
	r, err := suite.Serving.ServingV1().Revisions(s.ns).Get(s.Context(), revision, metav1.GetOptions{})
	s.must(err)
	name := "rollout-" + string(r.UID)
	s.must(kit.Wait(s.Context(), patience, "rollout "+name, func(ctx context.Context) error {
		_, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return kit.NotYet("it is not there")
		}
		return err
	}))
	return name
}

// again starts a rollout by hand, from the sample of the Pipeline, changed or not.
func (s *scene) again(change func(run *unstructured.Unstructured)) string {
	s.Helper()
	text := s.pieces("config/tekton/pipeline/progressive-rollout/0.1/samples/run.yaml", "", "")
	run := &unstructured.Unstructured{}
	s.must(yaml.Unmarshal([]byte(text), &run.Object))
	change(run)
	made, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).Create(s.Context(), run, metav1.CreateOptions{})
	s.must(err)
	return made.GetName()
}

// ask asks something of a PipelineRun: Cancelled, CancelledRunFinally or StoppedRunFinally.
func (s *scene) ask(run, status string) {
	s.Helper()
	_, err := suite.Dynamic.Resource(pipelineRuns).Namespace(s.ns).
		Patch(s.Context(), run, types.MergePatchType, []byte(`{"spec":{"status":"`+status+`"}}`), metav1.PatchOptions{})
	s.must(err)
}

// ended waits for a rollout's end, and wants the traffic to be so, "1=100" for example; and logs what ran.
func (s *scene) ended(run string, want corev1.ConditionStatus, traffic string) {
	s.Helper()
	var found ran
	s.must(kit.Wait(s.Context(), 6*time.Minute, "the end of "+run, func(ctx context.Context) error {
		all, err := s.list(ctx, pipelineRuns, "")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r ran) bool { return r.Name == run })
		if i < 0 || !done(all[i]) {
			return kit.NotYet("there are %v", all)
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

// say logs what ran.
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

// split wants the Route to have that in force, by the numbers of the Revisions.
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
