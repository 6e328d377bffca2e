// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
)

const rendered = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters}
spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: capd-webhook-service}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: without-conversion}
spec: {}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks: [{name: a, clientConfig: {}}, {name: b, clientConfig: {}}]
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: issuer}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving-cert, namespace: capd-system}
spec: {secretName: cert, dnsNames: [capd-webhook-service.capd-system.svc]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager}
spec:
  template:
    spec:
      containers:
      - args: ["--feature-gates=ClusterTopology=${CLUSTER_TOPOLOGY:=false},MachinePool=${EXP_MACHINE_POOL:=true}"]
        command: [/manager]
        env:
        - name: DOCKER_HOST
          value: ${CAPD_DOCKER_HOST:=""}
        image: far.away/manager
        securityContext: {privileged: true}
        volumeMounts: [{name: cert}, {name: dockersock}]
      volumes: [{name: cert}, {name: dockersock}]
`

func TestCertifyReplacesCertManager(t *testing.T) {
	t.Parallel()
	ca, err := pki.OpenAuthority(t.TempDir(), "webhook-ca")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	if objects, err = certify(objects, ca); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.kind())
	}
	want := "CustomResourceDefinition CustomResourceDefinition ValidatingWebhookConfiguration Secret Deployment"
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}

	trusted, err := os.ReadFile(ca.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	bundle := base64.StdEncoding.EncodeToString(trusted)
	if got := text(objects[0], "spec", "conversion", "webhook", "clientConfig", "caBundle"); got != bundle {
		t.Errorf("the conversion trusts %q", got)
	}
	if got := objects[1]["spec"]; !reflect.DeepEqual(got, map[string]any{}) {
		t.Errorf("a CRD without a conversion got %v", got)
	}
	client := map[string]any{"caBundle": bundle}
	both := []any{map[string]any{"name": "a", "clientConfig": client}, map[string]any{"name": "b", "clientConfig": client}}
	if got := objects[2]["webhooks"]; !reflect.DeepEqual(got, both) {
		t.Errorf("the webhooks are %v", got)
	}

	// A client that trusts the authority accepts the certificate under the name of the Service.
	data, err := base64.StdEncoding.DecodeString(text(objects[3], "data", "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "capd-webhook-service.capd-system.svc"}); err != nil {
		t.Error(err)
	}
	if got := text(objects[3], "metadata", "namespace") + "/" + objects[3].name(); got != "capd-system/cert" {
		t.Errorf("the Secret is %s", got)
	}
}

func TestDeploymentsRunWithoutDocker(t *testing.T) {
	t.Parallel()
	objects, err := decode(substitute(rendered, capiSettings))
	if err != nil {
		t.Fatal(err)
	}
	runs(objects, "ko://sigs.k8s.io/cluster-api")
	last := objects[len(objects)-1]
	want := map[string]any{
		"args":  []any{"--feature-gates=ClusterTopology=true,MachinePool=true"},
		"env":   []any{map[string]any{"name": "DOCKER_HOST", "value": ""}},
		"image": "ko://sigs.k8s.io/cluster-api", "imagePullPolicy": "IfNotPresent",
		"resources":    map[string]any{"requests": map[string]any{"cpu": smallRequest}},
		"volumeMounts": []any{map[string]any{"name": "cert"}},
	}
	if got := containers(last)[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got := within(last, "spec", "template", "spec")["volumes"]; !reflect.DeepEqual(got, []any{map[string]any{"name": "cert"}}) {
		t.Errorf("the volumes are %v", got)
	}
}

func TestRemovedKindsHaveNoObjects(t *testing.T) {
	t.Parallel()
	for err, want := range map[string]bool{
		`error: the server doesn't have a resource type "clusters"`:                                                                                    true,
		`Error from server (NotFound): Unable to list "cluster.x-k8s.io/v1beta2, Resource=clusters": the server could not find the requested resource`: true,
		`error: timed out waiting for the condition on clusters/prod`:                                                                                  false,
	} {
		if got := withoutKind(err); got != want {
			t.Errorf("%s: got %v", err, got)
		}
	}
}
