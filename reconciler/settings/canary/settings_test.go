// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

const checkout = `{total: 'sum(a{n={{namespace}}, r={{revision}}})', bad: 'sum(b{n={{namespace}}, r={{revision}}})'}`

const good = "runtimes: [pekko]\nrules:\n- {figure: finished, family: a_total}\n"

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: Name}, Data: data}
}

func TestFromConfigMap(t *testing.T) {
	t.Parallel()
	s, err := FromConfigMap(configMap(map[string]string{
		"scrape-interval": "30s", "scrape-timeout": "10s", "scrape-body-limit": "1Mi", "scrape-series-limit": "500",
		"mapping.a": good, "_example": "x", "sleep-after": "PT5M",
		"prometheus-url": "https://p/prefix", "query.q": checkout,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if s.SleepAfter != 5*time.Minute || Default().SleepAfter != 15*time.Minute {
		t.Errorf("it sleeps after %s, by default after %s", s.SleepAfter, Default().SleepAfter)
	}
	if s.Interval != 30*time.Second || s.Limits != (limits.Reading{Timeout: 10 * time.Second, Body: 1 << 20, Series: 500}) {
		t.Errorf("%+v", s)
	}
	if len(s.Queries) != 1 || s.Queries["q"].Version() == "" || s.Prometheus.String() != "https://p/prefix" {
		t.Errorf("%+v at %s", s.Queries, s.Prometheus)
	}
	if got := s.Reader("pekko").Sources; len(got) != 2 || got[0].Name != mapping.NeutralName || got[1].Name != "a" {
		t.Errorf("pekko is read by %v", got)
	}
	if got := s.Reader("akka").Sources; len(got) != 1 {
		t.Errorf("akka is read by %v", got)
	}
	// A short interval shortens the time-out too.
	if s, err := FromConfigMap(configMap(map[string]string{"scrape-interval": "2s"})); err != nil ||
		s.Limits.Timeout != time.Second {
		t.Errorf("%v, %v", s.Limits, err)
	}
}

func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data map[string]string
		says []string
	}{
		"no duration": {map[string]string{"scrape-interval": "often"}, []string{"scrape-interval", "15s"}},
		"too often": {
			map[string]string{"scrape-interval": "1ms"},
			[]string{"scrape-interval is 1ms", "between 1s and 5m"},
		},
		"asleep too soon": {map[string]string{"sleep-after": "30s"}, []string{"sleep-after is 30s", "between 1m0s and 24h"}},
		"longer than the interval": {
			map[string]string{"scrape-timeout": "15s"},
			[]string{"scrape-timeout is 15s", "less than scrape-interval"},
		},
		"no size":   {map[string]string{"scrape-body-limit": "big"}, []string{`"big"`, "4Mi"}},
		"no number": {map[string]string{"scrape-series-limit": "5"}, []string{`"5"`, "between 100"}},
		"a typo": {
			map[string]string{"scrape-intervall": "15s"},
			[]string{"scrape-intervall", "mapping.<name>"},
		},
		"a query without address": {
			map[string]string{"query.q": checkout},
			[]string{"prometheus-url is missing", "such as http://"},
		},
		"no address": {
			map[string]string{"prometheus-url": "prometheus:9090"},
			[]string{`prometheus-url is "prometheus:9090"`, "without user"},
		},
		"a password": {map[string]string{"prometheus-url": "http://a:b@c"}, []string{"without user"}},
		"an address with a zone": {
			map[string]string{"prometheus-url": "https://[::1%25.example.com]"},
			[]string{"prometheus-url is", "with a zone"},
		},
		"a host that is not ASCII": {
			map[string]string{"prometheus-url": "https://prömetheus.example"},
			[]string{"not ASCII", "xn--"},
		},
		"a wrong query": {
			map[string]string{"prometheus-url": "http://p", "query.q": "total: 1\nbad: rate(x)"},
			[]string{"query.q: total: ", "revision={{revision}}", "query.q: bad: it is not valid PromQL"},
		},
		"a wrong mapping": {map[string]string{"mapping.x": "rules: []"}, []string{"mapping x", "1 to 32"}},
	} {
		_, err := Check(configMap(c.data))
		if err == nil {
			t.Errorf("%s was accepted", name)
			continue
		}
		for _, want := range append(c.says, "ConfigMap knative-cdevents/config-canary") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not contain %q", name, err, want)
			}
		}
	}
}

// After a downgrade, the ConfigMap may have keys of the later release. Nobody may write others: that is for the webhook.
func TestUnknownKeysAreIgnoredOnceInEffect(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	watcher := &configmap.ManualWatcher{Namespace: "knative-cdevents"}
	s := NewStore(zap.New(core).Sugar(), "knative-cdevents", watcher)
	of := func(more ...string) *corev1.ConfigMap {
		c := configMap(map[string]string{"scrape-interval": "20s", "mapping.a": good})
		for _, key := range more {
			c.Data[key] = "1"
		}
		return c
	}
	for _, step := range []struct {
		keys []string
		logs int
	}{
		{[]string{"of-tomorrow"}, 1},
		{[]string{"of-tomorrow"}, 1},
		{[]string{"of-tomorrow", "of-next-week"}, 2},
		{nil, 2},
		{[]string{"of-tomorrow"}, 3},
	} {
		c := of(step.keys...)
		if watcher.OnChange(c); s.Current().Interval != 20*time.Second || len(s.Current().Mappings) != 1 {
			t.Fatalf("%q: the rest is not in effect: %+v", step.keys, s.Current())
		}
		if all := logs.All(); len(all) != step.logs || !strings.Contains(all[len(all)-1].Message, `"of-tomorrow"`) {
			t.Fatalf("%q: %+v, want %d", step.keys, all, step.logs)
		}
		if _, err := Check(c); (err == nil) != (len(step.keys) == 0) {
			t.Errorf("%q: the webhook says %v", step.keys, err)
		}
	}
}

func TestLastValidSettingsStayInEffect(t *testing.T) {
	t.Parallel()
	watcher := &configmap.ManualWatcher{Namespace: "knative-cdevents"}
	s := NewStore(logging.FromContext(t.Context()), "knative-cdevents", watcher)
	for _, step := range []struct {
		data map[string]string
		want time.Duration
	}{
		{map[string]string{"scrape-interval": "wrong"}, DefaultInterval},
		{map[string]string{"scrape-interval": "20s"}, 20 * time.Second},
		{map[string]string{"scrape-interval": "wrong"}, 20 * time.Second},
		{map[string]string{"scrape-interval": "30s", "mapping.x": "wrong"}, 20 * time.Second},
		{nil, DefaultInterval},
	} {
		watcher.OnChange(configMap(step.data))
		if got := s.Current().Interval; got != step.want {
			t.Errorf("after %v: %s, want %s", step.data, got, step.want)
		}
	}
}
