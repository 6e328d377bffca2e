// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"net/url"
	"strings"
	"testing"
)

const clusterAt = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: fleet, uid: u1, generation: 2, resourceVersion: "5", creationTimestamp: "2026-05-04T09:00:00Z"}
spec:
  controlPlaneEndpoint: {host: "HOST", port: PORT}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: AWSManagedControlPlane, name: prod}
status:
  conditions:
  - {type: Available, status: "True", reason: Available, observedGeneration: 2, lastTransitionTime: "2026-05-04T09:10:00Z"}
  - {type: ControlPlaneAvailable, status: "True", reason: Available, observedGeneration: 2, lastTransitionTime: "2026-05-04T09:10:00Z"}
`

// CAPA copies the endpoint of EKS, which is a URL, to the host. What cannot be read has a note.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, port, want string }{
		{"prod.example.com", "6443", "https://prod.example.com:6443"},
		{"prod.example.com:6443", "0", "https://prod.example.com:6443"},
		{"prod.example.com", "0", "https://prod.example.com"},
		{"203.0.113.7", "6443", "https://203.0.113.7:6443"},
		{"fd00::7", "6443", "https://[fd00::7]:6443"},
		{"[fd00::7]", "6443", "https://[fd00::7]:6443"},
		{"fd00::7", "0", "https://[fd00::7]"},
		{"[fd00::7]", "0", "https://[fd00::7]"},
		{"[fd00::7]:8443", "6443", "https://[fd00::7]:8443"},
		{"https://[fd00::7]", "443", "https://[fd00::7]:443"},
		{"https://ABCDEF.gr7.eu-north-1.eks.amazonaws.com", "443", "https://ABCDEF.gr7.eu-north-1.eks.amazonaws.com:443"},
		{"https://ABCDEF.gr7.eu-north-1.eks.amazonaws.com:443", "443", "https://ABCDEF.gr7.eu-north-1.eks.amazonaws.com:443"},
		{"https://rancher.example.com/k8s/clusters/c-1", "443", "https://rancher.example.com:443/k8s/clusters/c-1"},
		{"https://admin:s3cret@prod.example.com", "6443", "https://prod.example.com:6443"},
		{"s3cret@prod.example.com", "6443", "https://prod.example.com:6443"},
		{"s3cret@prod.example.com:6443", "0", "https://prod.example.com:6443"},
		{"fe80::7%eth0", "6443", ""},
		{"prod example", "6443", ""},
		{"a:b:c", "6443", ""},
		{"https://", "443", ""},
		{"[", "1", ""},
		{"prod.example.com:x", "1", ""},
		{"prod.example.com", "70000", ""},
		{"prod.example.com", "-1", ""},
		{"prod.example.com", `"6443"`, ""},
		{strings.Repeat("x", maxURL+1), "1", ""},
	} {
		e := projector{}.project(fromYAML(t, strings.NewReplacer("HOST", c.host, "PORT",
			c.port).Replace(clusterAt))).Facts.Environment
		if e.URL != c.want {
			t.Errorf("host %q, port %s: %q, want %q", c.host, c.port, e.URL, c.want)
		}
		if noted := strings.Contains(e.Note, "endpoint is left out"); noted != (c.want == "") || len(e.Note) > 1024 {
			t.Errorf("host %q, port %s: note %q", c.host, c.port, e.Note)
		}
		if u, err := url.Parse(e.URL); err != nil || e.URL != "" && u.Hostname() == "" {
			t.Errorf("%q: %v", e.URL, err)
		}
	}
}

// Composites and others have addresses in several fields.
func TestEndpointsOfOthers(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"fd00::7"`: "https://[fd00::7]", `"prod.example.com:6443"`: "https://prod.example.com:6443",
		`"https://prod.example.com/a?b=c"`: "https://prod.example.com/a?b=c",
		`"https://a b"`:                    "", `"::x"`: "",
	} {
		u := fromYAML(t, "apiVersion: platform.example.com/v1\nkind: TeamCluster\nmetadata: {name: a}\nstatus: {endpoint: "+value+"}")
		e := projector{composite: true}.project(u).Facts.Environment
		if e.URL != want || strings.Contains(e.Note, "status.endpoint") != (want == "") {
			t.Errorf("%s: %q, note %q", value, e.URL, e.Note)
		}
	}
}

// A version that is written as a number would be another one: 1.30 is 1.3.
func TestVersionsThatAreNoTextHaveANote(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"apiVersion: platform.example.com/v1\nkind: TeamCluster\nmetadata: {name: a}\nspec: {version: 1.30}",
		"apiVersion: eks.aws.upbound.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\nspec: {forProvider: {version: 1.30}}",
		"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: {topology: {version: 1.30}}",
	} {
		u := fromYAML(t, text)
		if e := (projector{composite: u.GetKind() == "TeamCluster"}).project(u).Facts.Environment; e.Version != "" ||
			!strings.Contains(e.Note, "version is left out") {
			t.Errorf("%s\nversion %q, note %q", text, e.Version, e.Note)
		}
	}
}

// Providers write the version of a control plane to different fields, and while it is upgraded they differ.
func TestVersionsOfControlPlanes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"KubeadmControlPlane":                    {"spec: {version: v1.33.1}\nstatus: {version: v1.33.1}", "v1.33.1"},
		"KubeadmControlPlane, new":               {"spec: {version: v1.33.1}", "v1.33.1"},
		"KubeadmControlPlane, upgrading":         {"spec: {version: v1.34.0}\nstatus: {version: v1.33.1}", "v1.33.1"},
		"GCPManagedControlPlane before CAPG 1.9": {"spec: {controlPlaneVersion: 1.30.5-gke.100, clusterName: c}\nstatus: {currentVersion: 1.30.5-gke.100, ready: true}", "1.30.5-gke.100"},
		"GCPManagedControlPlane, by channel":     {"spec: {clusterName: c, releaseChannel: regular}\nstatus: {version: 1.30.5-gke.100, ready: true}", "1.30.5-gke.100"},
		"AWSManagedControlPlane, default": {
			"spec: {eksClusterName: c}\nstatus: {version: v1.31, ready: true}",
			"v1.31",
		},
		"AWSManagedControlPlane": {
			"spec: {version: v1.31.0}\nstatus: {version: \"1.31\", ready: true}",
			"v1.31.0",
		},
		"AWSManagedControlPlane, upgrading": {"spec: {version: v1.32}\nstatus: {version: v1.31, ready: true}", "v1.31"},
		"not the same":                      {"spec: {version: v1.3}\nstatus: {version: v1.31}", "v1.31"},
		"RKE2ControlPlane v1alpha1": {
			"spec: {agentConfig: {version: v1.28.1+rke2r1}}\nstatus: {ready: true}",
			"v1.28.1+rke2r1",
		},
		"HostedControlPlane": {"spec: {platform: {}}\nstatus: {version: 4.16.3}", "4.16.3"},
		"none":               {"spec: {platform: {}}", ""},
		"a number":           {"spec: {version: 1.30}", ""},
	} {
		version, note := object{fromYAML(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: X\nmetadata: {name: prod}\n"+c.yaml)}.runs()
		if version != c.want || (note == "") != (c.want != "") {
			t.Errorf("%s: %q, want %q, note %q", name, version, c.want, note)
		}
	}
}
