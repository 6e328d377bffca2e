// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// OfferRoles installs the ClusterRoles that an installation offers to users, and ServingView.
func (f *Fleet) OfferRoles(t testing.TB) {
	t.Helper()
	root := Must[string](t)(controlplane.Root(t.Context()))
	raw := Must[[]byte](t)(os.ReadFile(filepath.Join(root, "config", "200-clusterrole-users.yaml"))) //nolint:gosec // a file of this repository
	roles := []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: ServingView}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"serving.knative.dev"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
	}}}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		var role rbacv1.ClusterRole
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		roles = append(roles, role)
	}
	for _, role := range roles {
		Must[*rbacv1.ClusterRole](t)(f.Core.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}))
	}
}

// ServingView is a role with the rights on Services that ClusterRole view has where Knative is installed.
const ServingView = "serving-view"

// Bind binds a ClusterRole to users, in one namespace.
func (f *Fleet) Bind(t testing.TB, namespace, role string, users ...string) {
	t.Helper()
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u})
	}
	Must[*rbacv1.RoleBinding](t)(f.Core.RbacV1().RoleBindings(namespace).Create(t.Context(), b, metav1.CreateOptions{}))
}
