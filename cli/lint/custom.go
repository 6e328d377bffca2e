// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/config"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// custom checks an object of this project.
func (o *object) custom(version string, value map[string]any) {
	schema, known, err := schemaOf(o.Kind, version)
	if err != nil {
		o.report("", "%v", err)
		return
	}
	if schema == nil {
		o.report("kind", "%s has no kind %s; %s", o.APIVersion, o.Kind, orNearest(o.Kind+"."+version, known))
		return
	}
	if o.Metadata.Name == "" && o.Metadata.GenerateName == "" {
		o.report("metadata", "it has no name; set metadata.name")
	}
	for _, wrong := range validation.NameIsDNSSubdomain(o.Metadata.Name, false) {
		if o.Metadata.Name != "" {
			o.report("metadata.name", "%q is not a name: %s", o.Metadata.Name, wrong)
		}
	}
	o.fields("", value, schema)
	switch o.Kind {
	case v1alpha1.SourceKind.Kind:
		o.source()
	case v1alpha1.GateKind.Kind:
		checked[v1alpha1.CanaryGate](o)
	case v1alpha1.TemplateKind.Kind:
		checked[v1alpha1.ClusterCanaryGateTemplate](o)
	}
}

// checked reports what the rules of a kind say against an object.
func checked[T any, P interface {
	*T
	Validate(ctx context.Context) *apis.FieldError
}](o *object) {
	var kind T
	if err := json.Unmarshal(o.raw, &kind); err != nil {
		o.report("", "it cannot be read: %v", err)
		return
	}
	o.invalid("", P(&kind).Validate(context.Background()))
}

// schemaOf returns the schema of a kind and version, nil if there is none, and all kinds that there are.
func schemaOf(kind, version string) (schema *apiextensionsv1.JSONSchemaProps, known []string, err error) {
	all, err := config.Definitions()
	if err != nil {
		return nil, nil, fmt.Errorf("reading what was built in: %w", err)
	}
	for _, crd := range all {
		for i := range crd.Spec.Versions {
			v := &crd.Spec.Versions[i]
			known = append(known, crd.Spec.Names.Kind+"."+v.Name)
			if crd.Spec.Names.Kind == kind && v.Name == version {
				schema = v.Schema.OpenAPIV3Schema
			}
		}
	}
	return schema, known, nil
}

// ofAll are the fields that every object has.
var ofAll = []string{"apiVersion", "kind", "metadata", "status"}

// fields reports fields that the schema does not know, and values that are none of those it lists.
func (o *object) fields(path string, value any, s *apiextensionsv1.JSONSchemaProps) {
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			p, is := s.Properties[name]
			switch {
			case is && (path != "" || name == "spec"):
				o.fields(at, v[name], &p)
			case path == "" && slices.Contains(ofAll, name):
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				o.fields(path+"["+name+"]", v[name], s.AdditionalProperties.Schema)
			case !is && s.AdditionalProperties == nil && s.Type == "object":
				o.report(at, "this field does not exist; %s", orNearest(name, slices.Collect(maps.Keys(s.Properties))))
			}
		}
	case []any:
		if s.Items == nil || s.Items.Schema == nil {
			return
		}
		for i := range v {
			o.fields(fmt.Sprintf("%s[%d]", path, i), v[i], s.Items.Schema)
		}
	case string:
		if len(s.Enum) > 0 && path == "spec.replay" { // the rules in Go know all others, and say more
			o.enum(path, v, s.Enum)
		}
	}
}

func (o *object) enum(path, value string, all []apiextensionsv1.JSON) {
	var known []string
	for _, e := range all {
		var text string
		if err := json.Unmarshal(e.Raw, &text); err != nil {
			continue // not a text, so not what was written
		}
		if text == value {
			return
		}
		known = append(known, text)
	}
	o.report(path, "it is %q; it must be one of %s", value, strings.Join(known, ", "))
}

// source checks a CDEventSource as the webhook does.
func (o *object) source() {
	var s v1alpha1.CDEventSource
	if err := json.Unmarshal(o.raw, &s); err != nil {
		o.report("", "it cannot be read: %v", err)
		return
	}
	if s.Namespace == "" {
		s.Namespace = o.Namespace
	}
	if s.Namespace == "" {
		// What depends on the namespace cannot be said.
		s.Spec.NamespaceSelector = nil
		for _, ref := range []*string{refNamespace(&s), letterNamespace(&s)} {
			if ref != nil {
				*ref = ""
			}
		}
	}
	o.invalid("", valid.Check(&s, o.System, transports.Schemes))
}

func refNamespace(s *v1alpha1.CDEventSource) *string {
	if s.Spec.Sink.Ref == nil {
		return nil
	}
	return &s.Spec.Sink.Ref.Namespace
}

func letterNamespace(s *v1alpha1.CDEventSource) *string {
	if s.Spec.Delivery == nil || s.Spec.Delivery.DeadLetterSink == nil || s.Spec.Delivery.DeadLetterSink.Ref == nil {
		return nil
	}
	return &s.Spec.Delivery.DeadLetterSink.Ref.Namespace
}

// invalid reports what validation found. Fields of the object are below prefix.
func (o *object) invalid(prefix string, errs *apis.FieldError) {
	if errs == nil {
		return
	}
	for _, e := range errs.WrappedErrors() {
		field := ""
		if len(e.Paths) > 0 {
			field = e.Paths[len(e.Paths)-1]
		}
		what := e.Message
		switch {
		case e.Details != "" && e.Message == "invalid value":
			what = strings.TrimPrefix(e.Details, field+" ")
		case e.Details != "":
			what += "; " + e.Details
		}
		o.report(prefix+field, "%s", what)
	}
}

// customRun checks the gate that a Tekton CustomRun refers to or embeds, or those of a Pipeline's tasks.
func (o *object) customRun(value map[string]any) bool {
	spec, _ := value["spec"].(map[string]any)
	found := o.gateTask("spec.", spec, "customRef", "customSpec")
	embedding, prefix := spec, "spec."
	if of, is := spec["pipelineSpec"].(map[string]any); is {
		embedding, prefix = of, "spec.pipelineSpec."
	}
	for _, list := range []string{"tasks", "finally"} {
		tasks, _ := embedding[list].([]any)
		for i := range tasks {
			task, _ := tasks[i].(map[string]any)
			found = o.gateTask(fmt.Sprintf("%s%s[%d].", prefix, list, i), task, "taskRef", "taskSpec") || found
		}
	}
	return found
}

// gateTask checks a task if it is a gate, by a reference or by what is embedded.
func (o *object) gateTask(prefix string, task map[string]any, ref, spec string) bool {
	found := o.embedded(prefix+spec, task[spec])
	in, _ := task[ref].(map[string]any)
	version, _ := in["apiVersion"].(string)
	if group, _, _ := strings.Cut(version, "/"); group == v1alpha1.GroupName {
		found = true
	}
	if all, is := task["params"].([]any); is && found {
		for i := range all {
			o.param(fmt.Sprintf("%sparams[%d]", prefix, i), all[i])
		}
	}
	return found
}

// param checks a param of a gate. What Tekton puts into its value later is not known here.
func (o *object) param(field string, value any) {
	of, _ := value.(map[string]any)
	name, _ := of["name"].(string)
	given := ""
	switch v := of["value"].(type) {
	case []any, map[string]any:
		o.report(field+".value", "param %q must be a string", name)
		return
	case nil:
	default:
		given = fmt.Sprint(v) // Tekton takes true and 20 for texts, too
	}
	if strings.Contains(given, "$(") {
		given = ""
	}
	if p := customrun.CheckParam(name, given); p != nil {
		o.report(field, "%s", p.Message)
	}
}

// embedded checks the spec of a gate inside of another object.
func (o *object) embedded(field string, value any) bool {
	in, _ := value.(map[string]any)
	version, _ := in["apiVersion"].(string)
	group, version, _ := strings.Cut(version, "/")
	if group != v1alpha1.GroupName {
		return false
	}
	kind, _ := in["kind"].(string)
	schema, known, err := schemaOf(kind, version)
	switch {
	case err != nil:
		o.report(field, "%v", err)
	case schema == nil || kind != v1alpha1.GateKind.Kind:
		o.report(field, "only a CanaryGate can be embedded; %s", orNearest(kind+"."+version, known))
	default:
		spec := schema.Properties["spec"]
		o.fields(field+".spec", in["spec"], &spec)
		var g v1alpha1.CanaryGate
		raw, err := json.Marshal(map[string]any{"spec": in["spec"]})
		if err == nil {
			err = json.Unmarshal(raw, &g)
		}
		if err != nil {
			o.report(field+".spec", "it cannot be read: %v", err)
			return true
		}
		o.invalid(field+".", g.Validate(context.Background()))
	}
	return true
}
