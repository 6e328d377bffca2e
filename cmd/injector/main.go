// SPDX-License-Identifier: Apache-2.0

// The injector puts the sidecar into the pods of Knative Services that declare it, and refuses templates whose
// declaration is wrong. It is optional, and only for namespaces with the label knative-cdevents.dev/sidecar=enabled.
//
// It only wires. What it does to a pod is in reconciler/sidecar, and what may be declared in api/v1alpha1. It has its
// own identity, because nothing else of this project may change what users' controllers make.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/webhook"
	"knative.dev/pkg/webhook/resourcesemantics"
	"knative.dev/pkg/webhook/resourcesemantics/defaulting"
	"knative.dev/pkg/webhook/resourcesemantics/validation"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/certificate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
)

const (
	// component names the process in logs, leases and metrics, and its Service.
	component = "sidecar-injector"
	// port is the port that config/optional/sidecar/500-injector.yaml exposes.
	port = 8443
	// secret holds the self-signed certificate.
	secret = "sidecar-injector-certs"

	// The names of the configurations that are filled in here.
	podsWebhook      = "pods.sidecar.knative-cdevents.dev"
	templatesWebhook = "templates.sidecar.knative-cdevents.dev"
)

func main() {
	ctx := webhook.WithOptions(signals.NewContext(), webhook.Options{
		ServiceName: component, Port: port, SecretName: secret,
	})
	sharedmain.MainWithConfig(ctx, component, injection.ParseAndGetRESTConfigOrDie(),
		append([]injection.ControllerConstructor{certificate.New(component, secret)}, admission()...)...)
}

// admission returns what answers the API server. Both know the same sidecars of the installation.
func admission() []injection.ControllerConstructor {
	known := &atomic.Pointer[sidecar.Proxies]{}
	known.Store(&sidecar.Proxies{})
	return []injection.ControllerConstructor{
		func(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
			watchProxies(ctx, cmw, known)
			return pods(ctx, known)
		},
		func(ctx context.Context, _ configmap.Watcher) *controller.Impl { return templates(ctx, known) },
	}
}

func pods(ctx context.Context, known *atomic.Pointer[sidecar.Proxies]) *controller.Impl {
	s, err := settings(os.Getenv)
	if err != nil {
		logging.FromContext(ctx).Fatalw("The injector cannot start", "error", err)
	}
	versions := newServingVersion(ctx)
	present := func(ctx context.Context, pod *corev1.Pod) (now sidecar.Settings, err error) {
		now = s
		now.Proxies = *known.Load()
		if pod.Annotations[v1alpha1.AnnotationProxy] == v1alpha1.ProxyQueueProxy {
			now.ServingVersion, err = versions.get(ctx)
		}
		return now, err
	}
	callbacks := map[schema.GroupVersionKind]defaulting.Callback{
		podKind: defaulting.NewCallback(injectInto(present), webhook.Create),
	}
	kinds := map[schema.GroupVersionKind]resourcesemantics.GenericCRD{podKind: &admittedPod{}}
	return defaulting.NewAdmissionController(ctx, podsWebhook, "/pods", kinds, withoutPatches, false, callbacks)
}

// withoutPatches leaves out what the library logs of each pod: a probe may have a header with a secret.
func withoutPatches(ctx context.Context) context.Context {
	return logging.WithLogger(ctx, logging.FromContext(ctx).WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
}

// watchProxies follows ConfigMap config-sidecars. While what is in it cannot be read, the pods that need it are
// refused, and the message says why.
func watchProxies(ctx context.Context, cmw configmap.Watcher, known *atomic.Pointer[sidecar.Proxies]) {
	cmw.Watch(sidecar.ProxiesConfig, func(cm *corev1.ConfigMap) {
		read, err := sidecar.ParseProxies(cm.Data)
		if err != nil {
			logging.FromContext(ctx).Errorw("The sidecars of the installation cannot be used until this is corrected", "error", err)
		}
		known.Store(&read)
	})
}

// proxiesKey is that of the sidecars of the installation in a context.
type proxiesKey struct{}

func templates(ctx context.Context, known *atomic.Pointer[sidecar.Proxies]) *controller.Impl {
	with := func(ctx context.Context) context.Context { return context.WithValue(ctx, proxiesKey{}, known.Load()) }
	kinds := map[schema.GroupVersionKind]resourcesemantics.GenericCRD{
		servingv1.SchemeGroupVersion.WithKind("Service"):       &templated{},
		servingv1.SchemeGroupVersion.WithKind("Configuration"): &templated{},
	}
	return validation.NewAdmissionController(ctx, templatesWebhook, "/templates", kinds, with, false)
}

// settings are read from the environment, which config/optional/sidecar/500-injector.yaml describes.
func settings(env func(string) string) (sidecar.Settings, error) {
	s := sidecar.Settings{
		Image: env("SIDECAR_IMAGE"), QueueProxyImage: env("QUEUE_PROXY_IMAGE"),
		ControllerURL: env("CONTROLLER_URL"), Authorities: env("CONTROLLER_CA_CONFIGMAP"),
	}
	if s.Image == "" {
		return s, errors.New("SIDECAR_IMAGE is not set; it must be the image of the sidecar")
	}
	switch together := env("RESTART_TOGETHER"); together {
	case "", "false":
	case "true":
		s.RestartTogether = true
	default:
		return s, fmt.Errorf("RESTART_TOGETHER is %q; it must be true or false", together)
	}
	return s, nil
}
