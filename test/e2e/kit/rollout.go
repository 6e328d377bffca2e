// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var listeners = schema.GroupVersionResource{Group: "triggers.tekton.dev", Version: "v1beta1", Resource: "eventlisteners"}

var (
	// applied matches the files that an installation applies.
	applied = regexp.MustCompile(`-f (config/tekton/\S+)`)
	// takesPart matches the command that opts a Service in.
	takesPart = regexp.MustCompile(`(?s)kubectl patch ksvc cart -n shop --type merge -p '(.*?)'\n`)
)

// flow is a flow with Tekton that a page of the documentation installs.
type flow struct {
	// page and section say where the installation is described.
	page, section string
	// program is what its Task runs, below the root of the checkout.
	program string
	// account is the ServiceAccount of its EventListener, and listener the EventListener.
	account, listener string
}

var (
	rolloutFlow     = flow{page: "tekton.md", section: "Install", program: "cmd/traffic", account: "rollout-listener", listener: "rollouts"}
	environmentFlow = flow{
		page: "environments.md", section: "A flow that begins with an environment", program: "cmd/nodes", account: "environment-listener", listener: "environments",
	}
)

// InstallRollout installs the rollout with Tekton in a namespace, as docs/tekton.md describes it.
func (k Flows) InstallRollout(ctx context.Context, namespace string) error {
	return k.install(ctx, namespace, rolloutFlow)
}

// UninstallRollout removes what InstallRollout created outside of the namespace.
func (k Flows) UninstallRollout(ctx context.Context, namespace string) error {
	return k.uninstall(ctx, namespace, rolloutFlow)
}

// InstallEnvironmentFlow installs the flow that begins with an environment, as docs/environments.md describes it.
func (k Flows) InstallEnvironmentFlow(ctx context.Context, namespace string) error {
	return k.install(ctx, namespace, environmentFlow)
}

// UninstallEnvironmentFlow removes what InstallEnvironmentFlow created outside of the namespace.
func (k Flows) UninstallEnvironmentFlow(ctx context.Context, namespace string) error {
	return k.uninstall(ctx, namespace, environmentFlow)
}

// install applies the files that the page names as they are, with only the image replaced.
func (k Flows) install(ctx context.Context, namespace string, f flow) error {
	image, err := k.Image(ctx, "./"+f.program)
	if err != nil {
		return err
	}
	files, err := k.flowFiles(f)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := k.pieces(file)
		if err != nil {
			return err
		}
		text = strings.ReplaceAll(text, "ko://"+product+"/"+f.program, image)
		apply := func() error { return k.Apply(ctx, namespace, text) }
		if shared(file) {
			err = k.flows.enter(file, apply)
		} else {
			err = apply()
		}
		if err != nil {
			return err
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.binding(namespace)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "knative-cdevents-rollout-listener"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: f.account}},
	}
	_, err = k.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the listener's ClusterRoleBinding: %w", err)
	}
	return k.WaitReady(ctx, listeners, namespace, f.listener)
}

func (k Flows) uninstall(ctx context.Context, namespace string, f flow) error {
	err := k.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, f.binding(namespace), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the listener's ClusterRoleBinding: %w", err)
	}
	files, err := k.flowFiles(f)
	if err != nil {
		return err
	}
	for _, file := range files {
		if !shared(file) {
			continue // deleted with the namespace
		}
		text, err := k.pieces(file)
		if err != nil {
			return err
		}
		if err := k.flows.leave(file, func() error { return k.Unapply(ctx, namespace, text) }); err != nil {
			return err
		}
	}
	return nil
}

// shared reports whether the objects of a file belong to no namespace, so that all flows use the same.
func shared(file string) bool { return strings.HasPrefix(filepath.Base(file), "200-") }

// users counts who uses each of some files. Tests run side by side: the first to end must not take the rights of others.
type users struct {
	mu sync.Mutex
	of map[string]int
}

// enter applies a file, and counts one more user.
func (u *users) enter(file string, apply func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.of[file]++
	return apply()
}

// leave counts one user less, and removes what the file has created if there is none left.
func (u *users) leave(file string, remove func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[file]--; u.of[file] > 0 {
		return nil
	}
	delete(u.of, file)
	return remove()
}

// binding is the name of the listener's ClusterRoleBinding.
func (f flow) binding(namespace string) string { return f.account + "-" + namespace }

// flowFiles returns the files that the page applies, in its order.
func (k Flows) flowFiles(f flow) ([]string, error) {
	page, err := os.ReadFile(k.Path("docs", f.page))
	if err != nil {
		return nil, fmt.Errorf("reading how a flow is installed: %w", err)
	}
	_, install, _ := strings.Cut(string(page), "\n## "+f.section+"\n")
	install, _, _ = strings.Cut(install, "\n## ")
	var out []string
	for _, found := range applied.FindAllStringSubmatch(install, -1) {
		out = append(out, found[1])
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("docs/%s applies no file below config/tekton", f.page)
	}
	return out, nil
}

// pieces reads a file of the checkout, or all YAML files of a folder.
func (k Flows) pieces(path string) (string, error) {
	checkout, files := os.DirFS(k.Path()), []string{path}
	if strings.HasSuffix(path, "/") {
		var err error
		if files, err = fs.Glob(checkout, path+"*.yaml"); err != nil {
			return "", fmt.Errorf("listing %s: %w", path, err)
		}
	}
	all := make([]string, len(files))
	for i, file := range files {
		content, err := fs.ReadFile(checkout, file)
		if err != nil {
			return "", fmt.Errorf("reading what is installed: %w", err)
		}
		all[i] = string(content)
	}
	return strings.Join(all, "\n---\n"), nil
}

// TakePart opts Service cart in to progressive rollouts, with the command in docs/tekton.md.
func (k Flows) TakePart(ctx context.Context, namespace string) error {
	page, err := os.ReadFile(k.Path("docs", "tekton.md"))
	if err != nil {
		return fmt.Errorf("reading how a Service takes part: %w", err)
	}
	found := takesPart.FindSubmatch(page)
	if found == nil {
		return errors.New("docs/tekton.md does not say how a Service takes part")
	}
	_, err = k.Serving.ServingV1().Services(namespace).Patch(ctx, cartName, types.MergePatchType, found[1], metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("opting Service %s in: %w", cartName, err)
	}
	_, err = k.Services.Wait(ctx, namespace, cartName, "")
	return err
}

// WaitReady waits until an object's condition Ready is True.
func (k *Kit) WaitReady(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) error {
	return Wait(ctx, 2*time.Minute, resource.Resource+" "+name, func(ctx context.Context) error {
		o, err := k.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == string(corev1.ConditionTrue) {
				return nil
			}
		}
		said, err := json.Marshal(conditions)
		if err != nil {
			return err
		}
		return NotYet("conditions: %s", said)
	})
}
