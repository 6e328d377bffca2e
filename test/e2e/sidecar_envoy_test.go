// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// envoyEntry is Envoy as a sidecar of config-sidecars: what enters at a pod goes to the pod that the ring of the path
// names, and from its peer port to the container. Peers have no TLS and no identity.
const envoyEntry = `
container:
  name: envoy
  image: %s
  env: [{name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
  args:
    - --disable-hot-restart
    - --log-level
    - warning
    - --config-yaml
    - |
      static_resources:
        listeners:
          - {name: enter, address: {socket_address: {address: 0.0.0.0, port_value: 8600}}, filter_chains: [{filters: [%s]}]}
          - {name: peer, address: {socket_address: {address: 0.0.0.0, port_value: 8601}}, filter_chains: [{filters: [%s]}]}
        clusters:
          - name: members
            type: STRICT_DNS
            dns_refresh_rate: 1s
            lb_policy: RING_HASH
            load_assignment: {cluster_name: members, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: members.$(POD_NAMESPACE).svc.cluster.local, port_value: 8601}}}}]}]}
          - name: application
            type: STATIC
            load_assignment: {cluster_name: application, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $(APPLICATION_PORT)}}}}]}]}
userPort: 8600
applicationPort: APPLICATION_PORT
`

// envoyFilter proxies to a cluster.
func envoyFilter(cluster, more string) string {
	const types = "type.googleapis.com/envoy.extensions.filters"
	return `{name: envoy.filters.network.http_connection_manager, typed_config: {"@type": "` + types +
		`.network.http_connection_manager.v3.HttpConnectionManager", stat_prefix: ` + cluster +
		`, route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: ` + cluster +
		`, timeout: 0s` + more + `}}]}]}, http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": "` + types +
		`.http.router.v3.Router"}}]}}`
}

// envoy deploys the application with Envoy, and returns the ways of requests whose path's hash is of the pod where they
// enter, and of another one. E2E_ENVOY is the program; without it, there is none.
func (s *scene) envoy() ([]*way, []corev1.Pod) {
	s.Helper()
	ctx, program := s.Context(), os.Getenv("E2E_ENVOY")
	if program == "" {
		s.Log("not compared with Envoy: no program is given")
		return nil, nil
	}
	image, err := suite.EnvoyImage(ctx, program)
	s.must(err)
	s.namedSidecar("envoy", fmt.Sprintf(envoyEntry, image, envoyFilter("members", `, hash_policy: [{header: {header_name: ":path"}}]`),
		envoyFilter("application", "")))
	app := s.plain().Bare()
	app.Annotations["stateful.knative-cdevents.dev/runtime"] = "custom"
	app.Annotations["stateful.knative-cdevents.dev/proxy"] = "envoy"
	members := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "members"}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"serving.knative.dev/service": "cart"},
		Ports: []corev1.ServicePort{{Port: 8601}}, PublishNotReadyAddresses: true,
	}}
	_, err = suite.Kube.CoreV1().Services(s.ns).Create(ctx, members, metav1.CreateOptions{})
	s.must(err)
	s.untilNamed(func(ctx context.Context) error { return suite.Carts.DeployAlone(ctx, app) })
	pods, err := suite.Carts.Pods(ctx, app)
	s.must(err)
	local := &way{name: "Envoy local", pod: &pods[0], status: http.StatusInternalServerError}
	forwarded := &way{name: "Envoy forwarded", pod: &pods[0], status: http.StatusInternalServerError}
	s.must(kit.Wait(ctx, time.Minute, "Envoy to know both pods", func(ctx context.Context) error {
		local.keys, forwarded.keys = nil, nil
		for i := range 100 {
			key := fmt.Sprintf("cart-%d", i)
			body, status, err := local.get(ctx, http.DefaultClient, key)
			var said struct{ Handled struct{ Pod string } }
			if err != nil || status != local.status || json.Unmarshal(body, &said) != nil {
				return kit.NotYet("%s: %d %s, %v", key, status, body, err)
			}
			if said.Handled.Pod == pods[0].Name {
				local.keys = append(local.keys, key)
			} else {
				forwarded.keys = append(forwarded.keys, key)
			}
		}
		if len(local.keys) == 0 || len(forwarded.keys) == 0 {
			return kit.NotYet("%d keys are local, %d are not", len(local.keys), len(forwarded.keys))
		}
		return nil
	}))
	return []*way{local, forwarded}, pods
}

// namedSidecar adds an entry to ConfigMap config-sidecars until the test ends.
func (s *scene) namedSidecar(name, entry string) {
	s.Helper()
	configure := func(ctx context.Context, entry any) {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{name: entry}})
		s.must(err)
		_, err = suite.Kube.CoreV1().ConfigMaps(kit.Namespace).Patch(ctx, "config-sidecars", types.MergePatchType, patch, metav1.PatchOptions{})
		s.must(err)
	}
	s.Cleanup(func() { configure(context.WithoutCancel(s.Context()), nil) })
	configure(s.Context(), entry)
}

// untilNamed creates a Service that names such a sidecar. The injector may not know the ConfigMap yet, and says which
// sidecars there are.
func (s *scene) untilNamed(create func(context.Context) error) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 2*time.Minute, "the sidecar to be known", func(ctx context.Context) error {
		err := create(ctx)
		if err != nil && strings.Contains(err.Error(), "config-sidecars") {
			return kit.NotYet("%v", err)
		}
		return err
	}))
}
