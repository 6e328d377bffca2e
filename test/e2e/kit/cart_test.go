// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

func TestApplicationManifests(t *testing.T) {
	t.Parallel()
	for _, app := range []string{"sharded", "pekko"} {
		objects, err := manifests("../../" + app + "/config")
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, o := range objects {
			kinds = append(kinds, o.GetKind())
			if o.GetKind() != "Service" {
				continue
			}
			var s servingv1.Service
			if err := convert(o.Object, &s); err != nil {
				t.Fatal(err)
			}
			if s.Name != cartName || s.Spec.Template.Annotations["stateful.knative-cdevents.dev/metrics-port"] == "" {
				t.Errorf("%s: Service %s with annotations %v", app, s.Name, s.Spec.Template.Annotations)
			}
		}
		if !slices.Equal(kinds, []string{"ServiceAccount", "Role", "RoleBinding", "Service"}) {
			t.Errorf("%s: the manifests contain %v", app, kinds)
		}
	}
	if _, err := manifests("."); err == nil {
		t.Error("a folder without manifests was accepted")
	}
}

func TestChangeNextRevision(t *testing.T) {
	t.Parallel()
	s := &servingv1.Service{}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "KEPT", Value: "1"}, {Name: "GONE", Value: "2"}, {Name: "NEW", Value: "old"}}}}
	s.Spec.Template.Annotations = map[string]string{"gone": "x", "kept": "y"}
	(&Cart{}).change(s, map[string]string{"GONE": "", "NEW": "3"}, map[string]string{"gone": "", "new": "z"})
	if got := fmt.Sprint(s.Spec.Template.Spec.Containers[0].Env); got != "[{KEPT 1 nil} {NEW 3 nil}]" {
		t.Errorf("the environment is %s", got)
	}
	if got := fmt.Sprint(s.Spec.Template.Annotations); got != "map[kept:y new:z]" {
		t.Errorf("the annotations are %s", got)
	}
}

func TestClientsRecordAnswers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		switch {
		case id == "request-7":
			http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		case id == "request-8" && r.URL.Path == "/cart/cart-3":
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = fmt.Fprint(w, `{"shard":4,"entered":{"revision":"one","pod":"p1"},"outcome":"timeout"}`)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"request": id, "shard": 3, "outcome": map[bool]string{true: "error", false: "ok"}[id == "request-1"],
				"entered": map[string]string{"revision": "one", "pod": "p1"}, "handled": map[string]string{"revision": "two", "pod": "p2"},
			})
		}
	}))
	t.Cleanup(s.Close)
	service, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &Clients{in: &Ingress{client: s.Client()}, service: service, Carts: 5, Workers: 2, truth: newTruth()}
	for range 2 {
		if err := c.Send(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
	}
	got := c.Truth()
	if got.Sent() != 10 || got.Entered["one"].All() != 9 || got.Handled["two"]["ok"] != 7 || got.Handled["two"]["error"] != 1 ||
		got.Handled[""]["timeout"] != 1 || got.Pods["p2"].All() != 8 || got.Shards["two"]["3"].All() != 8 ||
		got.Matrix["one"]["two"] != 8 || got.Lost["503 no healthy upstream\n"] != 1 {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{"entered  one", "9  ok      7  error     1 (11.11 %)  timeout    1", "two handled for 1 shards", "no healthy upstream"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%q is missing from\n%s", want, got)
		}
	}
}

func TestUnknownServiceAtIngressLosesNoRequests(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 25 {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, `{"shard":4,"entered":{"revision":"one","pod":"p1"},"outcome":"ok","handled":{"revision":"one","pod":"p1"}}`)
	}))
	t.Cleanup(s.Close)
	service, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &Clients{in: &Ingress{client: s.Client()}, service: service, Carts: 5, Workers: 1, truth: newTruth()}
	if err := c.SendUntil(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if got := c.Truth(); got.Sent() != 15 || len(got.Lost) > 0 {
		t.Errorf("sent %d of 40, lost %v", got.Sent(), got.Lost)
	}
}

func TestValuesOfAFamily(t *testing.T) {
	t.Parallel()
	const text = "# TYPE a counter\na{x=\"1\"} 3\na{x=\"2\"} 4\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 5\nh_sum 1\nh_count 5\nu 6\n"
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, name := range []string{"a", "h", "u", "none"} {
		for labels, n := range values(families[name]) {
			got[name+labels["x"]] = n
		}
	}
	if fmt.Sprint(got) != "map[a1:3 a2:4 h:5 u:6]" {
		t.Errorf("got %v", got)
	}
}

func TestMembersOfPekko(t *testing.T) {
	t.Parallel()
	got, err := pekkoMembers([]byte(`{"selfNode":"pekko://cart@10.244.0.5:17355","members":[
		{"node":"pekko://cart@10.244.0.5:17355","nodeUid":"1","status":"Up","roles":["dc-default"]},
		{"node":"pekko://cart@10.244.0.6:17355","nodeUid":"2","status":"Joining"},
		{"node":"pekko://cart@10.244.0.7:17355","nodeUid":"3","status":"Up"}],"unreachable":[]}`))
	if err != nil || !slices.Equal(got, []string{"10.244.0.5", "10.244.0.7"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestShardOfIsJavasHashCode(t *testing.T) {
	t.Parallel()
	// The hash codes are those that jshell prints for "cart-0".hashCode() and so on.
	for id, hash := range map[string]int{
		"cart-0": -1367590717, "cart-499": 5319207, "cart-17-23": 813950555, "Müller": -1854470916, "polygenelubricants": -2147483648,
	} {
		if got, want := shardByHashCode(id, 100), max(hash%100, -(hash%100)); got != want {
			t.Errorf("%s belongs to shard %d, want %d", id, got, want)
		}
	}
}

func TestEvenCartsReachEachShardOnce(t *testing.T) {
	t.Parallel()
	for _, shardOf := range []func(string, int) int{shardByHashCode, shardByFNV} {
		c := &Clients{Carts: 500, Even: 100, shardOf: shardOf}
		names := map[string]bool{}
		for round := range 5 {
			shards := map[int]bool{}
			for n := range 100 {
				name := c.cart(100*round + n)
				names[name], shards[shardOf(name, 100)] = true, true
			}
			if len(shards) != 100 {
				t.Errorf("100 carts belong to %d shards", len(shards))
			}
		}
		if len(names) != 500 {
			t.Errorf("500 carts have %d names", len(names))
		}
	}
}
