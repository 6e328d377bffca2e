// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/leaderelection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/observability"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
)

const cluster = "6f1e2c1a-8f0e-4a55-9d3c-1f1f1c6f7a10"

// parsers maps each ConfigMap to the controller's parser.
var parsers = map[string]func(*corev1.ConfigMap) error{
	settings.Name: func(c *corev1.ConfigMap) error {
		_, err := settings.Check(c)
		return err
	},
	canary.Name: func(c *corev1.ConfigMap) error {
		_, err := canary.Check(c)
		return err
	},
	"config-logging": func(c *corev1.ConfigMap) error {
		_, err := logging.NewConfigFromConfigMap(c)
		return err
	},
	"config-observability": func(c *corev1.ConfigMap) error {
		_, err := observability.NewFromMap(c.Data)
		return err
	},
	"config-leader-election": func(c *corev1.ConfigMap) error {
		_, err := leaderelection.NewConfigFromConfigMap(c)
		return err
	},
}

func TestShippedConfigMapsAndExamplesParse(t *testing.T) {
	t.Parallel()
	all := of[*corev1.ConfigMap](t)
	if len(all) != len(parsers) {
		t.Errorf("%d ConfigMaps, %d parsers", len(all), len(parsers))
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			parse, ok := parsers[c.Name]
			if !ok {
				t.Fatal("no parser reads it")
			}
			if err := parse(c); err != nil {
				t.Errorf("as shipped: %v", err)
			}
			example := c.DeepCopy()
			example.Data = map[string]string{}
			if err := yaml.UnmarshalStrict([]byte(c.Data["_example"]), &example.Data); err != nil {
				t.Fatalf("the example is not valid data: %v", err)
			}
			if len(example.Data) == 0 {
				t.Error("the example is empty")
			}
			if err := parse(example); err != nil {
				t.Errorf("with the example's data: %v", err)
			}
			// Knative warns users who edit the example and expect an effect.
			if want := configmap.Checksum(c.Data["_example"]); c.Annotations[configmap.ExampleChecksumAnnotation] != want {
				t.Errorf("the checksum of the example is %s", want)
			}
		})
	}
}

// The defaults in the examples are the real defaults.
func TestExamplesShowTheDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range of[*corev1.ConfigMap](t) {
		if c.Name != settings.Name {
			continue
		}
		example := c.DeepCopy()
		if err := yaml.UnmarshalStrict([]byte(c.Data["_example"]), &example.Data); err != nil {
			t.Fatal(err)
		}
		if _, err := settings.Check(example); err != nil {
			t.Error(err)
		}
		s, err := settings.FromConfigMap(settings.Default(cluster), example)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rules() != lifecycle.DefaultRules {
			t.Errorf("%+v", s.Rules())
		}
		for _, key := range []string{
			"cluster-uri", "environment-id", "environment-source", "rollback-traffic", "rollback-template",
			"rollback-withdrawn", "shifted-min-interval", "stabilization-window", "sink-hosts", "incident-degraded-after", "settle-within",
			"environment-kinds", "incident-environment-outage-after", "incident-environment-degraded-after", "incident-environment-not-created-after", "environment-deleted-within",
		} {
			if !strings.Contains(c.Data["_example"], "\n"+key+":") {
				t.Errorf("the example lacks %s", key)
			}
		}
		shipped, err := settings.FromConfigMap(settings.Default(cluster), c)
		if err != nil || !reflect.DeepEqual(shipped, settings.Default(cluster)) {
			t.Errorf("shipped: %+v, %v", shipped, err)
		}
	}
}

// The shipped mappings cover the runtimes known at release.
func TestMappingsAreShipped(t *testing.T) {
	t.Parallel()
	for _, c := range of[*corev1.ConfigMap](t) {
		if c.Name != canary.Name {
			continue
		}
		example := c.DeepCopy()
		if err := yaml.UnmarshalStrict([]byte(c.Data["_example"]), &example.Data); err != nil {
			t.Fatal(err)
		}
		shown, err := canary.Check(example)
		if err != nil || shown.Interval != canary.Default().Interval || shown.SleepAfter != canary.Default().SleepAfter || shown.Limits != canary.Default().Limits {
			t.Errorf("the example does not show the defaults: %+v, %v", shown, err)
		}
		shipped, err := canary.FromConfigMap(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, runtime := range []string{"akka", "pekko", "cloudstate", "protoactor"} {
			if n := len(shipped.Reader(runtime).Sources); n != 2 {
				t.Errorf("%s is read by %d mappings, want the neutral contract and its own", runtime, n)
			}
		}
	}
}

// With Knative's own defaults, a crashed leader keeps its lease for a minute.
func TestLeaderElectionIsQuick(t *testing.T) {
	t.Parallel()
	for _, c := range of[*corev1.ConfigMap](t) {
		if c.Name != "config-leader-election" {
			continue
		}
		got, err := leaderelection.NewConfigFromConfigMap(c)
		if err != nil || got.LeaseDuration != 15*time.Second || got.RenewDeadline != 10*time.Second || got.RetryPeriod != 2*time.Second {
			t.Errorf("%+v, %v", got, err)
		}
		if replicas := *deployment(t).Spec.Replicas; replicas != 3 || got.Buckets != uint32(replicas) {
			t.Errorf("%d replicas share %d buckets", replicas, got.Buckets)
		}
	}
}
