// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const uid = "6f1e2c1a-8f0e-4a55-9d3c-1f1f1c6f7a10"

func read(data map[string]string) (Settings, error) {
	c := &corev1.ConfigMap{Data: data}
	c.Namespace, c.Name = "knative-cdevents", Name
	return FromConfigMap(Default(uid), c)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data map[string]string
		want func(*Settings)
	}{
		{"nothing", nil, func(*Settings) {}},
		{"only the example", map[string]string{"_example": "cluster-uri: x"}, func(*Settings) {}},
		{"empty values", map[string]string{
			"cluster-uri": " ", "environment-source": "", "environment-id": "",
			"sink-hosts": " ",
		}, func(*Settings) {}},
		{"everything", map[string]string{
			"cluster-uri": "https://eu-1.example", "environment-id": "production", "environment-source": "https://env.example",
			"rollback-traffic": "false", "rollback-template": "false", "rollback-withdrawn": "false",
			"shifted-min-interval": "30s", "stabilization-window": "5s", "sink-hosts": "*.Example.com, 10.1.2.3",
			"incident-not-deployed-after": "20m",
		}, func(s *Settings) {
			s.ClusterURI, s.Environment.ID, s.Environment.Source = "https://eu-1.example", "production", "https://env.example"
			s.RollbackTraffic, s.RollbackTemplate, s.RollbackWithdrawn = false, false, false
			s.ShiftedMinInterval, s.StabilizationWindow = 30*time.Second, 5*time.Second
			s.SinkHosts = "*.example.com,10.1.2.3"
			s.IncidentNotDeployedAfter = 20 * time.Minute
		}},
		{"kinds of environments", map[string]string{
			"environment-kinds":                 " Cluster.cluster.x-k8s.io, XFleet.platform.example.com,Cluster.cluster.x-k8s.io,",
			"incident-environment-outage-after": "20s", "incident-environment-degraded-after": "0s",
			"incident-environment-not-created-after": "3h", "environment-deleted-within": "24h",
		}, func(s *Settings) {
			s.EnvironmentKinds = []schema.GroupKind{
				{Group: "cluster.x-k8s.io", Kind: "Cluster"},
				{Group: "platform.example.com", Kind: "XFleet"},
			}
			s.EnvironmentOutageAfter, s.EnvironmentDegradedAfter = 20*time.Second, 0
			s.EnvironmentNotCreatedAfter, s.EnvironmentDeletedWithin = 3*time.Hour, 24*time.Hour
		}},
		{
			"no kinds of environments",
			map[string]string{"environment-kinds": ""},
			func(s *Settings) { s.EnvironmentKinds = nil },
		},
		{"lines", map[string]string{"rollback-traffic": "false\n", "rollback-template": " True"}, func(s *Settings) {
			s.RollbackTraffic = false
		}},
		{"a URN as cluster URI", map[string]string{"cluster-uri": "urn:example:cluster"}, func(s *Settings) {
			s.ClusterURI = "urn:example:cluster"
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := Default(uid)
			tc.want(&want)
			if got, err := read(tc.data); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestInvalidValuesAreRefusedByKey(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"cluster-uri":          "eu-1",
		"environment-source":   "https://",
		"rollback-traffic":     "yes, please",
		"rollback-template":    "2",
		"rollback-withdrawn":   "",
		"shifted-min-interval": "10",
		"stabilization-window": "-5s",
		"settle-within":        "2h",
		"environment-kinds":    "Cluster.cluster.x-k8s.io, clusters",
		"sink-hosts":           "https://hooks.example.com",
	} {
		_, err := read(map[string]string{key: value, "environment-id": "x"})
		if err == nil || !strings.Contains(err.Error(), key) ||
			!strings.Contains(err.Error(), "knative-cdevents/config-cdevents") {
			t.Errorf("%s=%q: %v", key, value, err)
		}
	}
	for key, most := range map[string]string{
		"incident-outage-after": "1h", "incident-not-deployed-after": "1h", "incident-environment-outage-after": "24h",
		"incident-environment-degraded-after": "24h", "incident-environment-not-created-after": "24h", "environment-deleted-within": "24h",
	} {
		if _, err := read(map[string]string{key: most}); err != nil {
			t.Error(err)
		}
		if _, err := read(map[string]string{key: most + "1s"}); err == nil || !strings.Contains(err.Error(), "it must be between 0s and "+most) {
			t.Errorf("%s of more than %s: %v", key, most, err)
		}
	}
	for _, tc := range []struct{ key, value, says string }{
		{"rollback-traffic", "yes", `rollback-traffic is "yes"; it must be true or false`},
		{"cluster-uri", "cluster.example:6443", `"cluster.example:6443", which is not an absolute URI; use one such as https://`},
		{"environment-kinds", "Cluster.v1beta1.cluster.x-k8s.io", "so use Cluster.cluster.x-k8s.io"},
	} {
		if _, err := read(map[string]string{tc.key: tc.value}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s=%q: %v", tc.key, tc.value, err)
		}
	}
	// CloudEvents cannot carry these URIs, so no event could be sent.
	for _, uri := range []string{
		`https://a"b/`, "https://ü.example", "https://a.example/{x}", "HTTPS://a.example",
		"https://a.example/%zz",
	} {
		for _, key := range []string{"cluster-uri", "environment-source"} {
			if _, err := read(map[string]string{key: uri, "environment-id": "x"}); err == nil {
				t.Errorf("%s=%q was accepted", key, uri)
			}
		}
	}
	if _, err := read(map[string]string{"environment-id": strings.Repeat("p", 70_000)}); err == nil ||
		!strings.Contains(err.Error(), "environment-id has 70000 bytes") {
		t.Errorf("an id that is too long: %v", err)
	}
	if _, err := read(map[string]string{"sink-hosts": ","}); err == nil {
		t.Error("a list without hosts was accepted")
	}
	if _, err := read(map[string]string{"environment-source": "https://env.example"}); err == nil {
		t.Error("an environment without an id was accepted")
	}
	_, err := read(map[string]string{"cluster-uri": "x", "stabilization-window": "2h"})
	if err == nil || !strings.Contains(err.Error(), "cluster-uri") ||
		!strings.Contains(err.Error(), "stabilization-window") {
		t.Errorf("the error does not name both keys: %v", err)
	}
}

func TestUnknownKeysAreReported(t *testing.T) {
	t.Parallel()
	data := map[string]string{
		"shift-min-interval": "10s", "_example": "", "cluster-url": "https://eu-1.example",
		"environment-id": "x",
	}
	if got := Unknown(&corev1.ConfigMap{Data: data}); !slices.Equal(got, []string{"cluster-url", "shift-min-interval"}) {
		t.Errorf("%q", got)
	}
	if s, err := read(data); err != nil || s.Environment.ID != "x" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestDefaultsMatchLifecycle(t *testing.T) {
	t.Parallel()
	d := Default(uid)
	if d.Rules() != lifecycle.DefaultRules {
		t.Errorf("%+v", d.Rules())
	}
	if d.ClusterURI != "urn:uuid:"+uid {
		t.Error(d.ClusterURI)
	}
}

// What is part of every event must have no credentials. The message does not repeat them.
func TestCredentialsAreRefused(t *testing.T) {
	for _, key := range []string{"cluster-uri", "environment-source"} {
		for _, value := range []string{"https://user:s3cret@eu-1.example", "https://eu-1.example/?token=s3cret"} {
			_, err := read(map[string]string{key: value, "environment-id": "production"})
			if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s %q: %v", key, value, err)
			}
		}
	}
}
