// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const (
	// systemNamespace is created by config/; namespace is that of the Services.
	systemNamespace = "knative-cdevents"
	namespace       = "shop"
	sourceName      = "bench"
)

// stage is the same for all contestants: one API server with the same objects, and one sink.
type stage struct {
	cp   *controlplane.ControlPlane
	kube kubernetes.Interface
	ours *client.Clientset
	cast *cast
	sink *sink
	// programs is the folder of the contestants, dir that of logs and kubeconfigs.
	programs, dir string
	audit         audit
	// apiServer and etcd are process ids.
	apiServer, etcd int
	say             func(format string, args ...any)
}

// newStage starts the API server and applies config/ without the Deployments: the contestants run here.
func newStage(ctx context.Context, programs, config, dir string, say func(string, ...any)) (*stage, error) {
	s := &stage{programs: programs, dir: dir, audit: audit{filepath.Join(dir, "audit.log")}, say: say}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy()), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	var err error
	s.cp, err = controlplane.New(ctx, controlplane.APIServerFlag("audit-policy-file", policy),
		controlplane.APIServerFlag("audit-log-path", s.audit.path), controlplane.APIServerFlag("audit-log-maxsize", "4096"))
	if err != nil {
		return nil, err
	}
	if err := s.furnish(ctx, config); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) furnish(ctx context.Context, config string) error {
	var errs [5]error
	s.apiServer, errs[0] = childNamed("kube-apiserver")
	s.etcd, errs[1] = childNamed("etcd")
	rest := s.cp.Config()
	rest.QPS = -1 // no client-side limit
	s.kube, errs[2] = kubernetes.NewForConfig(rest)
	s.ours, errs[3] = client.New(rest)
	serving, err := versioned.NewForConfig(rest)
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.cast = &cast{client: serving}
	if err := s.cp.InstallServing(ctx); err != nil {
		return err
	}
	if err := s.configure(ctx, config); err != nil {
		return err
	}
	if s.sink, err = newSink(ctx); err != nil {
		return err
	}
	return s.source(ctx)
}

// configure creates the namespaces and the ConfigMaps, like "make install".
func (s *stage) configure(ctx context.Context, config string) error {
	for _, name := range []string{systemNamespace, namespace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	paths, err := filepath.Glob(filepath.Join(config, "4*.yaml"))
	if err != nil {
		return fmt.Errorf("listing ConfigMaps in %s: %w", config, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("there is no ConfigMap in %s; run this from the top of the repository, as \"make bench\" does", config)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return fmt.Errorf("reading a ConfigMap: %w", err)
		}
		var cm corev1.ConfigMap
		if err := yaml.UnmarshalStrict(raw, &cm); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if _, err := s.kube.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, &cm, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the ConfigMap of %s: %w", path, err)
		}
	}
	return nil
}

// source creates the CDEventSource. The other contestants get the sink's address when they start.
func (s *stage) source(ctx context.Context) error {
	uri, err := apis.ParseURL(s.sink.url)
	if err != nil {
		return fmt.Errorf("parsing the sink's URL: %w", err)
	}
	src := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sourceName}}
	src.Spec.Sink = duckv1.Destination{URI: uri}
	if _, err := s.ours.CDEventSources(namespace).Create(ctx, src, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the CDEventSource: %w", err)
	}
	return nil
}

// kubeconfig writes the kubeconfig of a user, by which the audit log tells programs apart.
func (s *stage) kubeconfig(user string) (string, error) {
	path := filepath.Join(s.dir, user+".kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	raw, err := s.cp.KubeConfig(user, "system:masters")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

// pending is the number of pending events in the source's status, which is written every ten seconds at most.
func (s *stage) pending(ctx context.Context) (int64, error) {
	src, err := s.ours.CDEventSources(namespace).Get(ctx, sourceName, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the CDEventSource: %w", err)
	}
	return src.Status.Pending, nil
}

// forget deletes the ledger: at the next start, existing objects become the baseline and cause no events.
func (s *stage) forget(ctx context.Context) error {
	subjects := s.ours.CDEventSubjects(systemNamespace)
	if err := subjects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("emptying the ledger: %w", err)
	}
	return nil
}

func (s *stage) close() error {
	var err error
	if s.sink != nil {
		err = s.sink.close()
	}
	return errors.Join(err, s.cp.Stop())
}
