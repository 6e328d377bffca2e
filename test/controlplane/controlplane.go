// SPDX-License-Identifier: Apache-2.0

// Package controlplane gives Go tests a real etcd and kube-apiserver with this project's CRDs and, on request,
// those of Knative Serving.
//
// Invariant: a test that asks for a control plane gets one or fails. It is never skipped, because a skipped suite
// looks like one that passes. It needs no root, and nothing outlives the test.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// established bounds the time until the API server serves a CRD.
const established = 30 * time.Second

// removed bounds the time until a CRD is gone.
const removed = time.Minute

// ControlPlane is a running etcd and kube-apiserver.
type ControlPlane struct {
	env    *envtest.Environment
	config *rest.Config
}

// Option changes what New starts.
type Option func(*envtest.Environment)

// APIServerFlag passes a flag to kube-apiserver.
func APIServerFlag(name, value string) Option {
	return func(e *envtest.Environment) { e.ControlPlane.GetAPIServer().Configure().Append(name, value) }
}

// New starts a control plane with this project's CRDs. The caller must call Stop. Tests use Start, which stops it
// at the end.
func New(ctx context.Context, options ...Option) (*ControlPlane, error) {
	assets, err := assets(ctx)
	if err != nil {
		return nil, err
	}
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	crds, err := filepath.Glob(filepath.Join(root, "config", "3*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("looking for CRDs: %w", err)
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("there is no CRD in %s", filepath.Join(root, "config", "3*.yaml"))
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDInstallOptions:     installing(crds...),
		ErrorIfCRDPathMissing: true,
		// The test shares two cores with the compiler.
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	for _, option := range options {
		option(env)
	}
	config, err := env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting etcd and kube-apiserver from %s: %w", assets, err), env.Stop())
	}
	// Client-side rate limits would only slow the test down.
	config.QPS, config.Burst = 1000, 2000
	return &ControlPlane{env: env, config: config}, nil
}

// Start starts a control plane that stops at the end of the test.
func Start(t testing.TB) *ControlPlane {
	t.Helper()
	cp, err := New(t.Context())
	if err != nil {
		t.Fatalf("this test needs a real API server: %v", err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	return cp
}

// Config connects to the API server as an administrator.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// As connects as another user, with that user's permissions only. A ServiceAccount's name is
// system:serviceaccount:NAMESPACE:NAME.
func (c *ControlPlane) As(user string, groups ...string) *rest.Config {
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// KubeConfig returns a kubeconfig for a program under test. It authenticates as the user, with a certificate.
func (c *ControlPlane) KubeConfig(user string, groups ...string) ([]byte, error) {
	added, err := c.env.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("adding user %s: %w", user, err)
	}
	raw, err := added.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("making the kubeconfig of user %s: %w", user, err)
	}
	return raw, nil
}

// InstallServing installs the CRDs of Knative Serving, in the version in go.mod. A test may call it late, because
// Serving may be installed late in a cluster.
func (c *ControlPlane) InstallServing(ctx context.Context) error {
	paths, err := servingCRDs(ctx)
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(c.Config(), installing(paths...)); err != nil {
		return fmt.Errorf("installing the CRDs of Knative Serving: %w", err)
	}
	return nil
}

// InstallCustomRuns installs Tekton's CRD for CustomRuns, in the version that test/cluster uses. Tekton itself does not
// run.
func (c *ControlPlane) InstallCustomRuns(ctx context.Context) error {
	path, err := tektonCRD(ctx)
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(c.Config(), installing(path)); err != nil {
		return fmt.Errorf("installing the CRD of CustomRuns: %w", err)
	}
	return nil
}

// InstallEventing installs the CRDs of Knative Eventing's Broker, Trigger, ApiServerSource and PingSource, in the version
// that test/cluster uses. Eventing itself does not run.
func (c *ControlPlane) InstallEventing(ctx context.Context) error {
	paths, err := eventingCRDs(ctx)
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(c.Config(), installing(paths...)); err != nil {
		return fmt.Errorf("installing the CRDs of Knative Eventing: %w", err)
	}
	return nil
}

// RemoveServing removes the CRDs of Knative Serving, and with them every object of their kinds.
func (c *ControlPlane) RemoveServing(ctx context.Context) error {
	paths, err := servingCRDs(ctx)
	if err != nil {
		return err
	}
	if err := envtest.UninstallCRDs(c.Config(), installing(paths...)); err != nil {
		return fmt.Errorf("removing the CRDs of Knative Serving: %w", err)
	}
	return c.gone(ctx, paths)
}

// gone waits until the CRDs are deleted. The API server deletes their objects first.
func (c *ControlPlane) gone(ctx context.Context, paths []string) error {
	read := installing(paths...)
	if err := envtest.ReadCRDFiles(&read); err != nil {
		return fmt.Errorf("reading the CRDs of Knative Serving: %w", err)
	}
	api, err := apiextensions.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client for CRDs: %w", err)
	}
	var left string
	definitions := api.ApiextensionsV1().CustomResourceDefinitions()
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, removed, true, func(ctx context.Context) (bool, error) {
		for _, crd := range read.CRDs {
			// The CRD finalizer backs off for up to minutes while its storage is not ready.
			// An update makes it retry at once.
			nudge := fmt.Sprintf(`{"metadata":{"annotations":{"controlplane/nudge":"%d"}}}`, time.Now().UnixNano())
			_, err := definitions.Patch(ctx, crd.Name, types.MergePatchType, []byte(nudge), metav1.PatchOptions{})
			if !apierrors.IsNotFound(err) {
				left = crd.Name
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the deletion of the CRDs of Knative Serving; %s is left: %w", left, err)
	}
	return nil
}

// Stop stops both programs and deletes their data.
func (c *ControlPlane) Stop() error { return c.env.Stop() }

func installing(paths ...string) envtest.CRDInstallOptions {
	return envtest.CRDInstallOptions{
		Paths:              paths,
		CRDs:               []*apiextensionsv1.CustomResourceDefinition{},
		ErrorIfPathMissing: true,
		MaxTime:            established,
	}
}

// assets returns the folder with the two programs: KUBEBUILDER_ASSETS, or the output of test/cluster, which builds
// them if they are missing (minutes, once).
func assets(ctx context.Context) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	dir, err := output(ctx, filepath.Join(root, "test", "cluster"), "run", ".", "assets")
	if err != nil {
		return "", fmt.Errorf("building etcd and kube-apiserver (\"make test\" does it and shows the progress): %w", err)
	}
	return dir, nil
}
