// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"knative.dev/serving/pkg/apis/serving"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

// The sidecar of this repository starts with the environment that it gets, and uses the ports that are taken here.
func TestTheSidecarAcceptsItsEnvironment(t *testing.T) {
	pod := revision.Pod(t, declared(map[string]string{v1alpha1.AnnotationEntityTypes: "shop.Cart$1", v1alpha1.AnnotationPatience: "10m"}))
	token := filepath.Join(t.TempDir(), "token")
	if err := Inject(pod, Settings{Image: "i", ControllerURL: "https://controller.knative-cdevents.svc", RestartTogether: true}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What kubelet knows of the pod.
	kubelet := map[string]string{
		"status.podIP": "10.0.0.5", "metadata.namespace": pod.Namespace,
		"metadata.labels['serving.knative.dev/service']": pod.Labels[serving.ServiceLabelKey],
	}
	env := []string{"STATEFUL_TOKEN_FILE=" + token}
	for _, v := range pod.Spec.InitContainers[0].Env {
		value := strings.ReplaceAll(v.Value, "$$", "$")
		if v.ValueFrom != nil {
			if value = kubelet[v.ValueFrom.FieldRef.FieldPath]; value == "" {
				t.Errorf("%s comes from %s", v.Name, v.ValueFrom.FieldRef.FieldPath)
			}
		}
		env = append(env, v.Name+"="+value)
	}
	c, err := sidecar.FromEnvironment(env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Port != v1alpha1.SidecarPort || c.ManagementPort != v1alpha1.SidecarManagementPort || c.PeerPort != v1alpha1.SidecarPeerPort || c.ApplicationPort != 8080 {
		t.Errorf("%d, %d, %d, %d", c.Port, c.ManagementPort, c.PeerPort, c.ApplicationPort)
	}
	if c.PodIP != "10.0.0.5" || c.Placement.Namespace != "shop" || c.Placement.Service != "cart" || c.Placement.Shards != 100 || c.EntityType != "shop.Cart$1" {
		t.Errorf("%+v", c)
	}
	if c.RequestTimeout != 5*time.Minute || c.Placement.Patience != 10*time.Minute || !c.Together || !c.Hooks || c.Strict {
		t.Errorf("%+v", c)
	}
}
