// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// installed are objects of a cluster with Crossplane, as kubectl names them.
const installed = `
clusterrole.rbac.authorization.k8s.io/crossplane:composite:xteams.example.com:aggregate-to-view
clusterrole.rbac.authorization.k8s.io/knative-cdevents-environments-crossplane
clusterrole.rbac.authorization.k8s.io/view
customresourcedefinition.apiextensions.k8s.io/locks.pkg.crossplane.io
customresourcedefinition.apiextensions.k8s.io/services.serving.knative.dev
`

func TestRemoveWhatCrossplaneLeft(t *testing.T) {
	t.Parallel()
	var did []string
	kubectl := func(args ...string) (string, error) {
		did = append(did, strings.Join(args[:2], " "))
		switch {
		case args[0] == "get" && strings.Contains(args[1], "clusterroles"):
			return installed, nil
		case args[0] == "get":
			return "lock.pkg.crossplane.io/lock\n", nil
		}
		return "", nil
	}
	if err := removeLeft(kubectl); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"delete clusterrole.rbac.authorization.k8s.io/crossplane:composite:xteams.example.com:aggregate-to-view",
		"get locks.pkg.crossplane.io",
		"patch lock.pkg.crossplane.io/lock",
		"delete customresourcedefinition.apiextensions.k8s.io/locks.pkg.crossplane.io",
	}
	if !slices.Equal(did[1:], want) {
		t.Errorf("did\n%s\nwant\n%s", strings.Join(did[1:], "\n"), strings.Join(want, "\n"))
	}
	if err := removeLeft(func(...string) (string, error) { return "", errors.New("refused") }); err == nil {
		t.Error("an error of kubectl was dropped")
	}
}
