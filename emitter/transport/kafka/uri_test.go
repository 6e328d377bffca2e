// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"knative.dev/pkg/apis"
)

func TestURIs(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string][]string{
		"kafka://b1/releases":                   {"b1:9092"},
		"kafkas://b1:9093,b2:9094/my.topic_1-x": {"b1:9093", "b2:9094"},
		"kafka://10.1.2.3,10.1.2.4:9092/t":      {"10.1.2.3:9092", "10.1.2.4:9092"},
		"kafka://[fd00::1]:9094/t":              {"[fd00::1]:9094"},
		"kafka://[fd00::1]/t":                   {"[fd00::1]:9092"},
		"KAFKAS://My-Cluster.kafka.svc:9093/t":  {"my-cluster.kafka.svc:9093"},
	} {
		u, err := apis.ParseURL(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		a, err := parse(u.URL())
		if err != nil || !slices.Equal(a.servers, want) || a.tls != strings.HasPrefix(strings.ToLower(uri), "kafkas") {
			t.Errorf("%s: %+v, %v", uri, a, err)
		}
		if found, err := Schemes.Hosts(u.URL()); err != nil || len(found) != len(want) {
			t.Errorf("%s: hosts %v, %v", uri, found, err)
		}
	}
	for uri, says := range map[string]string{
		"kafka://me:pass@b1/t": "spec.auth.authorization", "kafka://b1": "name of a topic", "kafka://b1/a/b": "name of a topic",
		"kafka://b1/..": "name of a topic", "kafka://b1/t?x=1": "query", "kafka://b1/t#x": "fragment", "kafka://b1,/t": "host",
		"kafka:///t": "host", "kafka://b1:0/t": "port", "kafka://b1:99999/t": "port", "kafka://ſvc/t": "ASCII",
		"kafka://" + strings.Repeat("b,", 16) + "b/t": "at most 16",
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if err := Schemes.Check(u); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v, want %q", uri, err, says)
		}
	}
}
