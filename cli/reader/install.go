// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

var (
	namespaces  = corev1.SchemeGroupVersion.WithResource("namespaces")
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	reviews     = authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

// VersionLabel is the label of what belongs to an installation. Its value is the version.
const VersionLabel = "app.kubernetes.io/version"

// in reads an object of a namespace, or one without. It is false if there is none.
func (r *Reader) in(
	ctx context.Context, of schema.GroupVersionResource, namespace, name string, into any,
) (bool, error) {
	return r.get(ctx, of, namespace, name, into, remedy(of, namespace))
}

// get does the same, and says what to do if the user may not read the object.
func (r *Reader) get(
	ctx context.Context, of schema.GroupVersionResource, namespace, name string, into any, do string,
) (bool, error) {
	u, err := r.dynamic.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if known(err) {
		return false, nil
	}
	if err != nil {
		return false, explainWith(err, "get", of, namespace, do)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return false, fmt.Errorf("reading %s %s/%s: %w", of.GroupResource(), namespace, name, err)
	}
	return true, nil
}

// Deployment returns a Deployment, or nil if there is none.
func (r *Reader) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	out := &appsv1.Deployment{}
	if namespace == r.System && name == "controller" {
		found, err := r.own(ctx, deployments, name, out)
		if err != nil || !found {
			return nil, err
		}
		return out, nil
	}
	found, err := r.in(ctx, deployments, namespace, name, out)
	if err != nil || !found {
		return nil, err
	}
	return out, nil
}

// ConfigMap returns a ConfigMap, or nil if there is none.
func (r *Reader) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	out := &corev1.ConfigMap{}
	found, err := r.in(ctx, configMaps, namespace, name, out)
	if err != nil || !found {
		return nil, err
	}
	return out, nil
}

// DefinitionVersion returns the version label of a CustomResourceDefinition. It is false if there is no such
// definition.
func (r *Reader) DefinitionVersion(ctx context.Context, name string) (version string, found bool, err error) {
	out := &metav1.PartialObjectMetadata{}
	found, err = r.in(ctx, definitions, "", name, out)
	return out.Labels[VersionLabel], found, err
}

// Namespaces returns the names of all namespaces.
func (r *Reader) Namespaces(ctx context.Context) ([]string, error) {
	list, err := r.dynamic.Resource(namespaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, explain(err, "list", namespaces, "")
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].GetName())
	}
	return out, nil
}

// Leases returns those of the controller's namespace.
func (r *Reader) Leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	list, err := r.dynamic.Resource(leases).Namespace(r.System).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, explain(err, "list", leases, r.System)
	}
	var out coordinationv1.LeaseList
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), &out); err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	return out.Items, nil
}

// May reports whether the user may do something.
func (r *Reader) May(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return false, fmt.Errorf("asking for rights: %w", err)
	}
	asked := &unstructured.Unstructured{Object: content}
	got, err := r.dynamic.Resource(reviews).Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for rights: %w", err)
	}
	allowed, _, err := unstructured.NestedBool(got.Object, "status", "allowed")
	if err != nil {
		return false, fmt.Errorf("asking for rights: %w", err)
	}
	return allowed, nil
}

// Create creates an object of this project, or lets the API server only try it. It returns the object as the API server
// has it.
func (r *Reader) Create(
	ctx context.Context, of schema.GroupVersionResource, object runtime.Object, tryOnly bool,
) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("creating an object: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	options := metav1.CreateOptions{FieldManager: "kubectl-cdevents", FieldValidation: metav1.FieldValidationStrict}
	if tryOnly {
		options.DryRun = []string{metav1.DryRunAll}
	}
	got, err := r.dynamic.Resource(of).Namespace(u.GetNamespace()).Create(ctx, u, options)
	if apierrors.IsNotFound(err) && !known(err) {
		return nil, explain(err, "create", of, u.GetNamespace())
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // the API server's own words say what is wrong
	}
	return got, nil
}

// ServerVersion returns the version of Kubernetes, such as v1.36.0.
func (r *Reader) ServerVersion(ctx context.Context) (string, error) {
	var v version.Info
	if err := r.discover(ctx, "/version", &v); err != nil {
		return "", fmt.Errorf("asking for the version of Kubernetes: %w", err)
	}
	return v.GitVersion, nil
}

// Served returns the resources of a group and version that the API server serves; none if it does not know the group.
func (r *Reader) Served(ctx context.Context, groupVersion schema.GroupVersion) ([]string, error) {
	var list metav1.APIResourceList
	err := r.discover(ctx, "/apis/"+groupVersion.String(), &list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for resources of %s: %w", groupVersion, err)
	}
	var out []string
	for i := range list.APIResources {
		if !strings.Contains(list.APIResources[i].Name, "/") {
			out = append(out, list.APIResources[i].Name)
		}
	}
	return out, nil
}

// discover reads what the API server says of itself.
func (r *Reader) discover(ctx context.Context, path string, into any) error {
	raw, err := r.Serving.RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return err //nolint:wrapcheck // the callers say what they asked for
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// Definitions are the resources that an installation has.
func Definitions() []string {
	return []string{
		v1alpha1.GateResource.Resource, v1alpha1.GateRunResource.Resource, v1alpha1.BaselineResource.Resource,
		v1alpha1.SourceResource.Resource, v1alpha1.SubjectResource.Resource, v1alpha1.PlacementResource.Resource,
		v1alpha1.TemplateResource.Resource,
	}
}

// ServerTime returns the time of the API server's clock, to the second, and how long its answer took.
func (r *Reader) ServerTime(ctx context.Context) (at time.Time, took time.Duration, err error) {
	answer, took, err := r.Call(ctx, http.MethodGet, "/version", nil, nil)
	if err != nil {
		return time.Time{}, 0, err
	}
	at, err = http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("the API server's answer has no date: %w", err)
	}
	return at, took, nil
}

// Answer is an answer over HTTP.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Call sends a request to the API server, and returns its answer whatever the status is.
func (r *Reader) Call(
	ctx context.Context, method, path string, header http.Header, body []byte,
) (answer *Answer, took time.Duration, err error) {
	client, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return nil, 0, fmt.Errorf("connecting to the API server: %w", err)
	}
	// What is behind the API server may answer with a redirect, and its client sends the user's credentials wherever it
	// follows.
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(r.config)
	if err != nil {
		return nil, 0, fmt.Errorf("connecting to the API server: %w", err)
	}
	return Do(ctx, &direct, method, strings.TrimRight(base.String(), "/")+path, header, body)
}

// answerSize is how much of an answer is read.
const answerSize = 4 << 10

// Do sends a request over HTTP, and returns the answer whatever the status is.
func Do(
	ctx context.Context, client *http.Client, method, url string, header http.Header, body []byte,
) (answer *Answer, took time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, fmt.Errorf("calling %s: %w", url, err)
	}
	for key, values := range header {
		request.Header[key] = values
	}
	start := time.Now()
	response, err := client.Do(request)
	took = time.Since(start)
	if err != nil {
		return nil, took, fmt.Errorf("calling %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, answerSize))
	if err != nil {
		return nil, took, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return &Answer{response.StatusCode, response.Header, string(text)}, took, nil
}
