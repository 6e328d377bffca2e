// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func crd(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, c := range of[*apiextensionsv1.CustomResourceDefinition](t) {
		if c.Spec.Names.Plural == plural {
			return c
		}
	}
	t.Fatalf("no definition of %s", plural)
	return nil
}

func schemaOf(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) (*schema.Structural, validation.SchemaValidator) {
	t.Helper()
	if len(c.Spec.Versions) != 1 || c.Spec.Versions[0].Name != v1alpha1.SchemeGroupVersion.Version || c.Spec.Group != v1alpha1.GroupName {
		t.Fatalf("%s of %s", c.Spec.Versions[0].Name, c.Spec.Group)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(c.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	if errs := schema.ValidateStructural(field.NewPath(""), structural); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		t.Fatal(err)
	}
	return structural, validator
}

// The API server silently drops a field that the schema lacks. A status accepts any verdict, as a later controller may
// write one that an older definition does not know.
func TestNoFieldIsLost(t *testing.T) {
	t.Parallel()
	source, subject, gate, run, plan := &v1alpha1.CDEventSource{}, &v1alpha1.CDEventSubject{}, &v1alpha1.CanaryGate{}, &v1alpha1.CanaryGateRun{}, &v1alpha1.ShardPlacement{}
	baseline, template := &v1alpha1.CDEventBaseline{}, &v1alpha1.ClusterCanaryGateTemplate{}
	all := map[string]any{
		"cdeventsources": source, "cdeventsubjects": subject, "cdeventbaselines": baseline,
		"canarygates": gate, "clustercanarygatetemplates": template, "canarygateruns": run, "shardplacements": plan,
	}
	for plural, object := range all {
		fill(reflect.ValueOf(object).Elem(), plural, 0)
	}
	// These accept only certain values.
	source.Spec.CDEvents.Version = "0.4"
	source.Spec.Replay = v1alpha1.ReplayCurrent
	source.Spec.Auth.Authorization.Name, source.Spec.Auth.ClientCertificate.Name = "hook", "pair"
	linear, structured := eventingduckv1.BackoffPolicyLinear, eventingduckv1.DeliveryFormatJson
	source.Spec.Delivery.BackoffPolicy, source.Spec.Delivery.Format = &linear, &structured
	timeout := "PT30S"
	source.Spec.Delivery.Timeout, source.Spec.Delivery.BackoffDelay, source.Spec.Delivery.RetryAfterMax = &timeout, &timeout, &timeout

	run.Spec.Kind = v1alpha1.GateKind.Kind
	plan.Status.Mode = v1alpha1.PlacementEnforce

	gate.Spec.WithoutPast = verdict.Warn
	gate.Spec.FailOn, gate.Spec.Exposure.TooHigh, gate.Spec.Exposure.TooLow = []verdict.Verdict{verdict.Warn}, verdict.Warn, verdict.Warn
	gate.Spec.Metrics[0].Type = v1alpha1.MetricSlowRequests
	gate.Spec.Metrics[0].IgnoreCodes, gate.Spec.Metrics[0].Query = []int64{404}, "some-query"
	gate.Spec.Metrics[0].Threshold = &v1alpha1.Duration{Duration: 500 * time.Millisecond}
	gate.Spec.Service, gate.Spec.Canary, gate.Spec.Baseline = "cart", "cart-2", "cart-1"
	gate.Status.Run = gate.Status.Run.Public() // the rest is in the CanaryGateRun
	*gate.Spec.Metrics[0].MaxOddsRatio, *gate.Spec.Exposure.MaxRatio = 1.25, 1.25
	gate.Spec.TemplateRef.Name = "strict"
	template.Spec.GatePolicy = *gate.Spec.GatePolicy.DeepCopy()

	for plural, object := range all {
		structural, validator := schemaOf(t, crd(t, plural))
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var sent, kept map[string]any
		for _, into := range []*map[string]any{&sent, &kept} {
			if err := json.Unmarshal(raw, into); err != nil {
				t.Fatal(err)
			}
		}
		if len(raw) < 200 { // a CDEventBaseline has the fewest fields
			t.Errorf("%s: fill set only %d bytes: %s", plural, len(raw), raw)
		}
		pruning.Prune(kept, structural, true)
		if diff := cmp.Diff(sent, kept); diff != "" {
			t.Errorf("%s loses (-):\n%s", plural, diff)
		}
		if errs := validation.ValidateCustomResource(field.NewPath(plural), sent, validator); len(errs) > 0 {
			t.Errorf("%s is rejected: %v", plural, errs.ToAggregate())
		}
	}
}

func TestSourceIsAKnativeSource(t *testing.T) {
	t.Parallel()
	c := crd(t, "cdeventsources")
	if c.Labels["duck.knative.dev/source"] != "true" || !slices.Contains(c.Spec.Names.Categories, "sources") {
		t.Error("kn and Eventing do not recognize it as a source")
	}
	if c.Spec.Versions[0].Subresources == nil || c.Spec.Versions[0].Subresources.Status == nil {
		t.Error("the status is not a subresource, so its writers could write the spec")
	}
	var declared []struct{ Type, Description string }
	if err := json.Unmarshal([]byte(c.Annotations["registry.knative.dev/eventTypes"]), &declared); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range declared {
		got = append(got, s.Type)
		if s.Description == "" {
			t.Errorf("%s is not described", s.Type)
		}
	}
	for _, version := range []string{cdevents.Version05, cdevents.Version04} {
		for _, transition := range []lifecycle.Type{
			lifecycle.Created, lifecycle.Deployed, lifecycle.Published, lifecycle.RevisionReady,
			lifecycle.TrafficShifted, lifecycle.Upgraded, lifecycle.RolledBack, lifecycle.IncidentDetected, lifecycle.IncidentResolved, lifecycle.Judged, lifecycle.Removed,
			lifecycle.ClusterFormed, lifecycle.ClusterSettled, lifecycle.ClusterUnsettled, lifecycle.ClusterRebalanced, lifecycle.ClusterRemoved,
			lifecycle.ClusterAPIClusterCreated, lifecycle.CrossplaneClusterCreated, lifecycle.EnvironmentCreated, lifecycle.EnvironmentModified, lifecycle.EnvironmentDeleted,
		} {
			eventType, err := cdevents.Type(version, transition)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(want, eventType) {
				want = append(want, eventType)
			}
		}
		for _, eventType := range cdevents.Types(version) {
			if !slices.Contains(want, eventType) {
				t.Errorf("unexpected event type %s", eventType)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("event types\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestInternalKindsHaveNoStatusSubresource(t *testing.T) {
	t.Parallel()
	for _, plural := range []string{"cdeventsubjects", "cdeventbaselines", "canarygateruns"} {
		if v := crd(t, plural).Spec.Versions[0]; v.Subresources != nil {
			t.Errorf("%s: spec and status could not be written together", plural)
		}
	}
}

// All kinds have conditions of one form, with descriptions of one form.
func TestConditionsHaveOneForm(t *testing.T) {
	t.Parallel()
	var first *schema.Structural
	for _, plural := range []string{"cdeventsources", "cdeventsubjects", "cdeventbaselines", "canarygates"} {
		structural, _ := schemaOf(t, crd(t, plural))
		status := structural.Properties["status"]
		is := status.Properties["conditions"]
		is.Description = ""
		if first == nil {
			first = &is
		}
		if diff := cmp.Diff(*first, is); diff != "" {
			t.Errorf("%s (+):\n%s", plural, diff)
		}
	}
}

// Columns with a wrong path silently stay empty, and two of one name cannot be told apart.
func TestColumnPathsExist(t *testing.T) {
	t.Parallel()
	for _, c := range of[*apiextensionsv1.CustomResourceDefinition](t) {
		structural, _ := schemaOf(t, c)
		named := map[string]bool{"Name": true, "Namespace": true}
		for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
			if named[column.Name] {
				t.Errorf("%s: kubectl prints column %s twice", c.Spec.Names.Kind, column.Name)
			}
			named[column.Name] = true
			path, _, _ := strings.Cut(strings.TrimPrefix(column.JSONPath, "."), "[")
			at := structural
			for _, part := range strings.Split(path, ".") {
				if part == "metadata" {
					break
				}
				next, ok := at.Properties[part]
				if !ok {
					t.Errorf("%s: column %s: %s", c.Spec.Names.Kind, column.Name, column.JSONPath)
					break
				}
				at = &next
			}
		}
	}
}
