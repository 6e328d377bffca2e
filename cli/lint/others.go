// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
)

// domain ends the domains of all labels and annotations of this project.
const domain = "knative-cdevents.dev"

// knownKeys are the labels and annotations of this project that users write, apart from those that declare a stateful
// cluster.
func knownKeys() []string {
	return append(cdevents.CarriedAnnotations(), route.EnvironmentLabel, v1alpha1.SinkHostsAnnotation,
		v1alpha1.ForgetAnnotation, v1alpha1.GroupName+"/watch-environment", v1alpha1.GroupName+"/sidecar",
		v1alpha1.GroupName+"/rollout", v1alpha1.GroupName+"/aggregate-to-sinks",
		v1alpha1.GroupName+"/aggregate-to-environments")
}

// inDomain reports whether a label or annotation is one of this project.
func inDomain(key string) bool {
	of, _, has := strings.Cut(key, "/")
	return has && (of == domain || strings.HasSuffix(of, "."+domain))
}

// keys reports labels or annotations of this project that do not exist. It returns whether there is any of the project.
func (o *object) keys(field string, all map[string]string) (ours bool) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !inDomain(key) {
			continue
		}
		at := field + "[" + key + "]"
		switch {
		case strings.HasPrefix(key, v1alpha1.StatefulPrefix):
			if group, _, _ := strings.Cut(o.APIVersion, "/"); group == "serving.knative.dev" && field == "metadata.annotations" &&
				o.Kind != "Revision" {
				o.report(at, "it has no effect here; move it to spec.template.metadata.annotations, which reach the pods")
			}
		case !slices.Contains(knownKeys(), key):
			o.report(at, "it does not exist; %s", orNearest(key, knownKeys()))
		}
		ours = true
	}
	return ours
}

// service checks the template of a Knative Service or Configuration.
func (o *object) service(value map[string]any) bool {
	raw, err := json.Marshal(value["spec"])
	if err != nil {
		return false
	}
	var spec struct {
		Template struct {
			Metadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"template"`
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return false // Serving says what is wrong with its own objects
	}
	const labels, annotations = "spec.template.metadata.labels", "spec.template.metadata.annotations"
	m := spec.Template.Metadata
	ours := o.keys(labels, m.Labels)
	ours = o.keys(annotations, m.Annotations) || ours
	_, declared, err := v1alpha1.ParseStateful(m.Annotations)
	for _, e := range joined(err) {
		field, what := annotations, e.Error()
		if rest, is := strings.CutPrefix(what, "annotation "); is {
			key, tail, _ := strings.Cut(rest, " ")
			if field += "[" + key + "]"; strings.HasPrefix(tail, "is ") {
				what = "it " + tail
			}
		}
		o.report(field, "%s", what)
	}
	return declared || ours
}

// joined returns the errors that were joined.
func joined(err error) []error {
	if err == nil {
		return nil
	}
	if all, is := err.(interface{ Unwrap() []error }); is {
		var out []error
		for _, e := range all.Unwrap() {
			out = append(out, joined(e)...)
		}
		return out
	}
	return []error{err}
}

// configs check the ConfigMaps of this project with the parsers of those who read them. Those of config-observability
// and config-leader-election are not among them: they come with all exporters of OpenTelemetry, and with all types of
// Kubernetes, which the plugin has no use for.
var configs = map[string]func(*corev1.ConfigMap) error{
	settings.Name:    parsed(settings.Check),
	canary.Name:      parsed(canary.Check),
	"config-logging": parsed(logging.NewConfigFromConfigMap),
}

func parsed[T any](parse func(*corev1.ConfigMap) (T, error)) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		_, err := parse(c)
		return err
	}
}

// configMap checks a ConfigMap of the controller as the webhook does. Others have ConfigMaps of some of these names,
// too: those are ours in our namespace only.
func (o *object) configMap() bool {
	check, known := configs[o.Metadata.Name]
	alone := o.Metadata.Name == settings.Name || o.Metadata.Name == canary.Name
	if in := o.Metadata.Namespace; !known || in != o.System && (in != "" || !alone) {
		return false
	}
	var c corev1.ConfigMap
	if err := json.Unmarshal(o.raw, &c); err != nil {
		return false // kubectl says what is wrong
	}
	c.Namespace = o.System
	sum, has := c.Annotations[configmap.ExampleChecksumAnnotation]
	if example, is := c.Data[configmap.ExampleKey]; is && has && sum != configmap.Checksum(example) {
		o.report("data["+configmap.ExampleKey+"]", "it was changed, and has no effect; copy the setting out of it, below data")
	}
	o.settings(&c, check(&c))
	return true
}

// settings reports what is wrong with the data of a ConfigMap, at the key that each error is about.
func (o *object) settings(c *corev1.ConfigMap, err error) {
	for _, e := range joined(err) {
		text, ofAll := strings.CutPrefix(e.Error(), "ConfigMap "+c.Namespace+"/"+c.Name+": ")
		if inner := errors.Unwrap(e); ofAll && inner != nil {
			o.settings(c, inner)
			continue
		}
		field := "data"
		for _, key := range slices.Sorted(maps.Keys(c.Data)) {
			name, isMapping := strings.CutPrefix(key, "mapping.")
			if strings.HasPrefix(text, key+" ") || strings.HasPrefix(text, key+":") || strings.Contains(text, `"`+key+`"`) ||
				isMapping && strings.HasPrefix(text, "mapping "+name+":") {
				field = "data[" + key + "]"
				break
			}
		}
		o.report(field, "%s", strings.ReplaceAll(text, "\n", "; "))
	}
}
