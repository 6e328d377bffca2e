// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// newCluster is the API server of a cluster with some nodes. It refuses the first requests.
func newCluster(t *testing.T, nodes, refusals int) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusals--; refusals >= 0 || r.URL.Path != "/api/v1/nodes" || r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer its-own" {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		all := corev1.NodeList{}
		for i := range nodes {
			all.Items = append(all.Items, corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("prod-%03d", i)},
				Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.34.1"}},
			})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(all); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func kubeconfig(t *testing.T, of *httptest.Server, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	config, cluster, user := clientcmdapi.NewConfig(), clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, user.Token = of.URL, "its-own"
	cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate().Raw})
	if change != nil {
		change(cluster, user)
	}
	config.Clusters["c"], config.AuthInfos["u"] = cluster, user
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	raw, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// recorded runs the command on a Secret, and returns its results.
func recorded(t *testing.T, value []byte) (count, nodes string, err error) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{"NAMESPACE": "fleet", "CLUSTER": "prod", "RESULT_COUNT": filepath.Join(dir, "count"), "RESULT_NODES": filepath.Join(dir, "nodes")}
	here := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod-kubeconfig"}, Data: map[string][]byte{"value": value}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*pause)
	defer cancel()
	if err := record(ctx, here, func(name string) string { return env[name] }); err != nil {
		return "", "", err
	}
	out := [2]string{}
	for i, name := range []string{"RESULT_COUNT", "RESULT_NODES"} {
		text, err := os.ReadFile(env[name])
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(text)
	}
	return out[0], out[1], nil
}

func TestNodesAreRecorded(t *testing.T) {
	t.Parallel()
	count, nodes, err := recorded(t, kubeconfig(t, newCluster(t, 2, 1), nil))
	if err != nil || count != "2" || nodes != "prod-000 v1.34.1\nprod-001 v1.34.1\n" {
		t.Errorf("%s nodes: %q, %v", count, nodes, err)
	}
}

func TestResultIsBounded(t *testing.T) {
	t.Parallel()
	count, nodes, err := recorded(t, kubeconfig(t, newCluster(t, 400, 0), nil))
	if err != nil || count != "400" || len(nodes) > maxResult+len("…\n") || !strings.HasSuffix(nodes, "…\n") {
		t.Errorf("%s nodes in %d bytes, %v", count, len(nodes), err)
	}
}

// Whoever writes the Secret must not act as this pod.
func TestKubeconfigMustHoldItsOwnCredentials(t *testing.T) {
	t.Parallel()
	server := newCluster(t, 0, 0)
	for name, change := range map[string]func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo){
		"command": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "id", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
		"token file": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		},
		"key file":  func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificate, u.ClientKey = "/a", "/b" },
		"authority": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/a" },
	} {
		if _, err := access(kubeconfig(t, server, change)); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{"", "not YAML: ["} {
		if _, err := access([]byte(wrong)); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestClusterThatNeverAnswers(t *testing.T) {
	t.Parallel()
	_, _, err := recorded(t, kubeconfig(t, newCluster(t, 1, 1000), nil))
	if err == nil || !strings.Contains(err.Error(), "listing the nodes of fleet/prod") {
		t.Errorf("%v", err)
	}
}

func TestNodeWithoutAVersion(t *testing.T) {
	dir := t.TempDir()
	getenv := func(name string) string { return filepath.Join(dir, name) }
	if err := write(getenv, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "young"}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(getenv("RESULT_NODES")); err != nil || string(got) != "young\n" {
		t.Errorf("recorded %q, %v", got, err)
	}
}

// The other cluster chooses its nodes' names and versions.
func TestNodesOfAHostileCluster(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	nodes := make([]corev1.Node, 40)
	for i := range nodes {
		nodes[i].Name = "a"
		nodes[i].Status.NodeInfo.KubeletVersion = strings.Repeat("<\x1b[2J", 20)
	}
	if err := write(func(name string) string { return name }, nodes); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("RESULT_NODES")
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := json.Marshal(string(data)); err != nil || len(whole) > 3000 || strings.Contains(string(data), "\x1b") {
		t.Errorf("%d bytes, %v: %.100q", len(whole), err, data)
	}
}
