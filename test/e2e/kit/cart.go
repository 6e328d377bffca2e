// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// Cart is a sharded application as a Knative Service: the pods of all its Revisions form one cluster, which decides
// by itself which pod handles a request.
type Cart struct {
	Namespace, Image string
	// Env overrides the manifests; an empty value removes a variable.
	Env map[string]string
	// Annotations override the template's annotations in the same way.
	Annotations map[string]string
	// CanaryAnnotations are added for the second Revision.
	CanaryAnnotations map[string]string
	// Change changes the Service before it is created; nil: nothing.
	Change func(*servingv1.Service)
	// Tagged gives both Revisions a tag, so that neither is scaled to zero without traffic.
	Tagged bool

	// manifests is the folder with the application's YAML.
	manifests string
	// ask is the endpoint that returns a pod's member list, as "PORT/PATH", and hosts parses its response.
	ask   string
	hosts func([]byte) ([]string, error)
	// management is the port where a pod says which shards it holds.
	management string
	// shardOf returns the shard of a cart.
	shardOf func(cart string, shards int) int
}

// cartName is the Service's name in the manifests. Its entities are called Cart too.
const cartName = "cart"

// Sharded returns the application of test/sharded, on protoactor-go.
func (k Carts) Sharded(namespace, image string) *Cart {
	return &Cart{
		Namespace: namespace, Image: image, manifests: k.Path("test", "sharded", "config"), shardOf: shardByFNV,
		management: "9099", ask: "9099/members", hosts: func(body []byte) ([]string, error) {
			var said struct{ Members []string }
			if err := json.Unmarshal(body, &said); err != nil {
				return nil, fmt.Errorf("reading the members: %w", err)
			}
			for i, m := range said.Members {
				said.Members[i], _, _ = strings.Cut(m, ":")
			}
			return said.Members, nil
		},
	}
}

// ShardedImage builds the image of test/sharded.
func (k Carts) ShardedImage(ctx context.Context) (string, error) {
	return k.image(ctx, k.Path("test", "sharded"), ".")
}

// Plain returns the application of test/apps/cart, which knows nothing of pods: the sidecar makes it a member.
func (k Carts) Plain(namespace, image string) *Cart {
	return &Cart{
		Namespace: namespace, Image: image, manifests: k.Path("test", "apps", "cart", "config"), shardOf: shardByFNV,
		Env: map[string]string{}, management: sidecarPort, ask: sidecarPort + "/cluster/members", hosts: pekkoMembers,
	}
}

// Bare makes the application of Plain one without a sidecar: its requests are handled where they enter.
func (c *Cart) Bare() *Cart {
	c.Annotations = map[string]string{}
	for _, name := range []string{"runtime", "key", "placement", "entity-types", "calls-per-request"} {
		c.Annotations["stateful.knative-cdevents.dev/"+name] = ""
	}
	return c
}

// sidecarPort is where the sidecar tells what it knows.
const sidecarPort = "8481"

// Stable is the name of the first Revision.
func (c *Cart) Stable() string { return RevisionName(cartName, 1) }

// Canary is the name of the second Revision.
func (c *Cart) Canary() string { return RevisionName(cartName, 2) }

// Selector selects the pods of all Revisions.
func (c *Cart) Selector() string { return "serving.knative.dev/service=" + cartName }

// Deploy applies the manifests and waits until the first Revision is Ready and its pods form one cluster.
func (k Carts) Deploy(ctx context.Context, c *Cart) error {
	if err := k.DeployAlone(ctx, c); err != nil {
		return err
	}
	return k.WaitOneCluster(ctx, c)
}

// DeployAlone applies the manifests and waits until the first Revision is Ready.
func (k Carts) DeployAlone(ctx context.Context, c *Cart) error {
	objects, err := manifests(c.manifests)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() == "Service" {
			var s servingv1.Service
			if err := convert(o.Object, &s); err != nil {
				return err
			}
			s.Namespace = c.Namespace
			s.Spec.Template.Spec.Containers[0].Image = c.Image
			c.change(&s, c.Env, c.Annotations)
			if c.Change != nil {
				c.Change(&s)
			}
			if err := k.Services.Create(ctx, &s); err != nil {
				return err
			}
			continue
		}
		gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := k.Dynamic.Resource(gvr).Namespace(c.Namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if _, err := k.Services.Wait(ctx, c.Namespace, cartName, c.Stable()); err != nil {
		return fmt.Errorf("%w; %s", err, k.Workloads.whyPods(ctx, c.Namespace, c.Selector()))
	}
	return nil
}

// ReleaseCanary creates a second Revision with one pod, another environment and no traffic, and waits until it is
// Ready. Give it traffic within a minute: Serving scales a Revision without traffic to zero.
func (k Carts) ReleaseCanary(ctx context.Context, c *Cart, env map[string]string) error {
	err := k.Services.Update(ctx, c.Namespace, cartName, func(s *servingv1.Service) {
		one := map[string]string{"autoscaling.knative.dev/min-scale": "1", "autoscaling.knative.dev/max-scale": "1"}
		maps.Copy(one, c.CanaryAnnotations)
		c.change(s, env, one)
		SetTraffic(s, Share{c.Stable(), 100})
	})
	if err != nil {
		return err
	}
	if _, err := k.Services.Wait(ctx, c.Namespace, cartName, c.Canary()); err != nil {
		return fmt.Errorf("%w; %s", err, k.Workloads.whyPods(ctx, c.Namespace, c.Selector()))
	}
	return nil
}

// Split gives the canary that percentage of the traffic, and waits until it is in effect.
//
// It patches the traffic alone, as a pipeline should: applying the manifests again would write the template too, which
// creates a third Revision, or fails if the template has a name.
func (k Carts) Split(ctx context.Context, c *Cart, canary int64) error {
	var targets []any
	for _, t := range []Share{{c.Stable(), 100 - canary}, {c.Canary(), canary}} {
		target := map[string]any{"revisionName": t.Revision, "percent": t.Percent, "latestRevision": false}
		if c.Tagged {
			target["tag"] = "keep-" + t.Revision
		}
		// A target with zero percent would keep its Revision from scaling to zero.
		if t.Percent > 0 || c.Tagged {
			targets = append(targets, target)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"traffic": targets}})
	if err != nil {
		return fmt.Errorf("encoding the traffic: %w", err)
	}
	_, err = k.Serving.ServingV1().Services(c.Namespace).Patch(ctx, cartName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("splitting the traffic: %w", err)
	}
	_, err = k.Services.Wait(ctx, c.Namespace, cartName, "")
	return err
}

// URL returns the URL for clients.
func (k Carts) URL(ctx context.Context, c *Cart) (*url.URL, error) {
	s, err := k.Serving.ServingV1().Services(c.Namespace).Get(ctx, cartName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the Service's URL: %w", err)
	}
	if s.Status.URL == nil {
		return nil, fmt.Errorf("the Service %s/%s has no URL yet", c.Namespace, cartName)
	}
	return s.Status.URL.URL(), nil
}

// WaitOneCluster waits until each pod of the Service has exactly the Service's pods as members.
func (k Carts) WaitOneCluster(ctx context.Context, c *Cart) error {
	return Wait(ctx, patience, "one cluster of all Revisions", func(ctx context.Context) error {
		views, pods, err := k.Views(ctx, c)
		if err != nil {
			return err
		}
		want := slices.Sorted(maps.Values(pods))
		for pod, view := range views {
			if !slices.Equal(view, want) {
				return NotYet("%s has the members %v, the pods are %v", pod, view, want)
			}
		}
		if len(pods) == 0 {
			return NotYet("there are no pods")
		}
		return nil
	})
}

// Views returns each running pod's sorted list of members by address, and the pods' own addresses. The list of a
// pod that does not answer is empty.
func (k Carts) Views(ctx context.Context, c *Cart) (views map[string][]string, addresses map[string]string, err error) {
	pods, err := k.Pods(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	views, addresses = map[string][]string{}, map[string]string{}
	for _, p := range pods {
		views[p.Name], addresses[p.Name] = nil, p.Status.PodIP
		port, path, _ := strings.Cut(c.ask, "/")
		body, err := k.askPod(ctx, &p, port, path)
		if err != nil {
			continue
		}
		if views[p.Name], err = c.hosts(body); err != nil {
			return nil, nil, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		slices.Sort(views[p.Name])
	}
	return views, addresses, nil
}

// Pods returns the running pods of all Revisions, without those that are being deleted.
func (k Carts) Pods(ctx context.Context, c *Cart) ([]corev1.Pod, error) {
	pods, err := k.Workloads.pods(ctx, c.Namespace, c.Selector())
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning
	}), err
}

// ShardOwner is the pod that has a shard.
type ShardOwner struct{ Revision, Pod string }

// ShardOwners returns which pod has each cart shard, from what the pods say at their management port. A shard that two
// pods claim is an error.
func (k Carts) ShardOwners(ctx context.Context, c *Cart) (map[string]ShardOwner, error) {
	pods, err := k.Pods(ctx, c)
	if err != nil {
		return nil, err
	}
	owners := map[string]ShardOwner{}
	for _, p := range pods {
		body, err := k.askPod(ctx, &p, c.management, "cluster/shards/Cart")
		if err != nil {
			return nil, err
		}
		var said struct{ Regions []struct{ ShardID string } }
		if err := json.Unmarshal(body, &said); err != nil {
			return nil, fmt.Errorf("reading the shards of pod %s: %w", p.Name, err)
		}
		for _, r := range said.Regions {
			if was, twice := owners[r.ShardID]; twice {
				return nil, fmt.Errorf("both %s and %s have shard %s", was.Pod, p.Name, r.ShardID)
			}
			owners[r.ShardID] = ShardOwner{Revision: p.Labels["serving.knative.dev/revision"], Pod: p.Name}
		}
	}
	return owners, nil
}

// askPod sends a request to a port of a pod through the API server.
func (k Carts) askPod(ctx context.Context, p *corev1.Pod, port, path string) ([]byte, error) {
	body, err := k.Kube.CoreV1().RESTClient().Get().
		AbsPath("/api/v1/namespaces", p.Namespace, "pods", p.Name+":"+port, "proxy", path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking pod %s for :%s/%s: %w", p.Name, port, path, err)
	}
	return body, nil
}

// Crash crashes the application in one pod, and waits until the kubelet has restarted it in the same pod and all
// pods form one cluster. Only test/sharded supports it.
func (k Carts) Crash(ctx context.Context, c *Cart, pod string) error {
	path := []string{"/api/v1/namespaces", c.Namespace, "pods", pod + ":9099", "proxy", "crash"}
	// The process ends before it responds.
	err := k.Kube.CoreV1().RESTClient().Post().AbsPath(path...).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		return fmt.Errorf("crashing pod %s: it answered: %w", pod, err)
	}
	err = Wait(ctx, patience, "pod "+pod+" to be restarted", func(ctx context.Context) error {
		p, err := k.Kube.CoreV1().Pods(c.Namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == cartName && s.RestartCount > 0 && s.Ready {
				return nil
			}
		}
		return NotYet("%s", k.Workloads.whyPods(ctx, c.Namespace, c.Selector()))
	})
	if err != nil {
		return err
	}
	return k.WaitOneCluster(ctx, c)
}

// change sets the environment and annotations of the next Revision.
func (c *Cart) change(s *servingv1.Service, env, annotations map[string]string) {
	template := &s.Spec.Template
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	for name, value := range annotations {
		template.Annotations[name] = value
		if value == "" {
			delete(template.Annotations, name)
		}
	}
	container := &template.Spec.Containers[0]
	container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { _, set := env[e.Name]; return set })
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if env[name] != "" {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: env[name]})
		}
	}
}

// manifests reads all YAML files of a folder, sorted by file name.
func manifests(dir string) ([]*unstructured.Unstructured, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, e := range entries {
		file, err := os.Open(dir + "/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			o := &unstructured.Unstructured{}
			if err = decoder.Decode(o); err != nil {
				break
			}
			out = append(out, o)
		}
		if cerr := file.Close(); !errors.Is(err, io.EOF) || cerr != nil {
			return nil, fmt.Errorf("reading %s: %w", e.Name(), errors.Join(err, cerr))
		}
	}
	return out, nil
}

// convert converts an object to its typed form.
func convert(from map[string]any, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding a manifest: %w", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("decoding a manifest: %w", err)
	}
	return nil
}
