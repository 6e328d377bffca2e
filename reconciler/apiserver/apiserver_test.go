// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/pkg/ptr"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

func TestAPIServerAddressIsRefused(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"https://10.96.0.1:443": "10.96.0.1/32", "https://[fd00::1]:443": "fd00::1/128", "https://api.example.com": "",
		"::": "",
	} {
		got := ""
		if p := Prefixes(&rest.Config{Host: host}); len(p) > 0 {
			got = p[0].String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}

// TestEndpointsAreWatched uses only the permissions of the controller.
func TestEndpointsAreWatched(t *testing.T) {
	t.Parallel()
	cp := controlplane.Start(t)
	admin, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	own := admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	write := func(addresses ...string) {
		t.Helper()
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:   kubernetesService,
				Labels: map[string]string{discoveryv1.LabelServiceName: kubernetesService},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: addresses}},
			Ports: []discoveryv1.EndpointPort{
				{Name: ptr.String("https"), Port: ptr.Int32(6443)},
				{Name: ptr.String("any")},
			},
		}
		// The API server may have created its own already.
		_ = own.Delete(ctx, kubernetesService, metav1.DeleteOptions{})
		if _, err := own.Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bindControllerRole(t, admin)
	limited, err := kubernetes.NewForConfig(cp.As("system:serviceaccount:knative-cdevents:controller"))
	if err != nil {
		t.Fatal(err)
	}

	write("172.30.0.1")
	e, err := NewEndpoints(ctx, limited)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.List(); !slices.Equal(got, []netip.AddrPort{netip.MustParseAddrPort("172.30.0.1:6443")}) {
		t.Errorf("at the start: %v", got)
	}
	go e.RunWithContext(ctx)
	write("172.30.0.2", "172.30.0.3")
	want := []netip.AddrPort{netip.MustParseAddrPort("172.30.0.2:6443"), netip.MustParseAddrPort("172.30.0.3:6443")}
	for range 200 {
		if slices.Equal(e.List(), want) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := e.List(); !slices.Equal(got, want) {
		t.Errorf("after a change: %v", got)
	}
}

// bindControllerRole grants the permissions in config/200-clusterrole.yaml.
func bindControllerRole(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "200-clusterrole.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(content, role); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "knative-cdevents", Name: "controller"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAudiencesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token(`{"aud":["https://kubernetes.default.svc","api"]}`)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config rest.Config
		want   []string
	}{
		"file": {
			rest.Config{BearerTokenFile: file, BearerToken: "other"},
			[]string{"https://kubernetes.default.svc", "api"},
		},
		"one":      {rest.Config{BearerToken: token(`{"aud":"api"}`)}, []string{"api"}},
		"none":     {rest.Config{BearerToken: token(`{}`)}, nil},
		"no token": {rest.Config{}, nil},
		"opaque":   {rest.Config{BearerToken: "a.b"}, nil},
		"not JSON": {rest.Config{BearerToken: "a.b!.c"}, nil},
	} {
		if got := Audiences(&tc.config); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
