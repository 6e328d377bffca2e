// SPDX-License-Identifier: Apache-2.0

package released

import (
	"strings"
	"testing"
)

func TestIsRelease(t *testing.T) {
	for v, want := range map[string]bool{
		"v0.1.0": true, "0.1.0": true, "v1.2.3-rc.1": true, "": false, "devel": false, "(devel)": false, "main": false,
		"v0.0.0-20261128085950-6ba3d0491234": false, "v0.1.1-0.20261128085950-6ba3d0491234": false, "v0.1.0+dirty": false,
	} {
		if got := IsRelease(v); got != want {
			t.Errorf("%q is a release: %t", v, got)
		}
	}
}

func TestDocs(t *testing.T) {
	defer func() { Version = "" }()
	for version, want := range map[string]string{
		"":       "https://github.com/knative-cdevents/knative-cdevents/blob/main/docs/delivery.md#order",
		"v0.1.0": "https://github.com/knative-cdevents/knative-cdevents/blob/v0.1.0/docs/delivery.md#order",
	} {
		Version = version
		if got := Docs("delivery.md#order"); got != want {
			t.Errorf("version %q: %s", version, got)
		}
	}
}

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		client, controller, want string
		fine                     bool
	}{
		{"devel", "devel", "both are development builds", true},
		{"v0.1.0", "devel", "one of them is a development build", true},
		{"v0.1.0", "v0.1.0", "the same version", true},
		{"v0.2.0", "v0.1.3", "newer than the controller by less than two", true},
		{"v0.1.1", "v0.1.3", "older than the controller by less than two", true},
		{"v0.3.0", "v0.1.0", "newer than the controller by two", false},
		{"v0.1.0", "v0.3.0", "use the plugin of version v0.3.0", false},
		{"v1.0.0", "v0.9.0", "major versions differ", false},
	} {
		if got, fine := Skew(c.client, c.controller); !strings.Contains(got, c.want) || fine != c.fine {
			t.Errorf("%s and %s: %q, %t", c.client, c.controller, got, fine)
		}
	}
}
