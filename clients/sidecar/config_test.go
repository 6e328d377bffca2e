// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{
		"STATEFUL_KEY=path:/carts/{key}", "STATEFUL_APPLICATION_PORT=8080", "STATEFUL_POD_IP=10.0.0.5", "K_SERVICE=cart",
		"STATEFUL_NAMESPACE=shop", "STATEFUL_TOKEN_FILE=" + token, "PATH=/bin",
	}
	c, err := FromEnvironment(good)
	if err != nil || c.Port != 8480 || c.PeerPort != 8482 || c.ManagementPort != 8481 || c.EntityType != "Key" || !c.Hooks || c.Strict ||
		c.MostOpen != 10000 || c.RequestTimeout != 5*time.Minute || c.Placement.Service != "cart" || c.Placement.Shards != 100 {
		t.Fatalf("%+v %v", c, err)
	}
	for change, says := range map[string]string{
		"STATEFUL_SHARD=5":                   "did you mean STATEFUL_SHARDS?",
		"STATEFUL_CONTANER_CONCURRENCY=5":    "did you mean STATEFUL_CONTAINER_CONCURRENCY?",
		"STATEFUL_KEY=hedder:X":              "header:NAME",
		"STATEFUL_KEY=path:/carts/x{key}":    "{key} in a segment",
		"STATEFUL_KEY=path:0":                "the first one is 1",
		"STATEFUL_KEY=header:stateful_shard": "the sidecar sets itself",
		"STATEFUL_KEY=":                      "is not set",
		"STATEFUL_SHARDS=0":                  "from 1 to 65536",
		"STATEFUL_STRICT=yes":                "true or false",
		"STATEFUL_LEASE=5":                   "a duration",
		"STATEFUL_POD_IP=pod":                "status.podIP",
		"STATEFUL_PORT=8012":                 "belongs to queue-proxy",
		"STATEFUL_PORT=8481":                 "are both 8481",
		"STATEFUL_ENTITY_TYPE=a/b":           "such as Cart",
		"STATEFUL_CONTROLLER_URL=ftp://x":    "http or https",
		"STATEFUL_TOKEN_FILE=/absent":        "cannot be read",
	} {
		if _, err := FromEnvironment(append(append([]string{}, good...), change)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want %q: %v", change, says, err)
		}
	}
	if _, err := FromEnvironment(append(good, "STATEFUL_STRICT=true", "STATEFUL_LEASE=5s")); err == nil || !strings.Contains(err.Error(), "at least 6s") {
		t.Errorf("strict with a short lease: %v", err)
	}
}

// Kubelet describes the Services of the namespace in the environment, if a template asks for it.
func TestLinksOfServices(t *testing.T) {
	t.Parallel()
	given := []string{
		"STATEFUL_KEY=header:X-Key", "STATEFUL_APPLICATION_PORT=8080", "STATEFUL_POD_IP=10.0.0.1", "STATEFUL_NAMESPACE=shop",
		"STATEFUL_SERVICE=cart", "STATEFUL_TOKEN_FILE=config.go",
	}
	for _, service := range []string{"STATEFUL", "STATEFUL_PEER", "STATEFUL_CART_V2"} {
		given = append(given, service+"_SERVICE_HOST=10.96.0.1", service+"_SERVICE_PORT=80", service+"_SERVICE_PORT_HTTP=80",
			service+"_PORT=tcp://10.96.0.1:80", service+"_PORT_80_TCP=tcp://10.96.0.1:80", service+"_PORT_80_TCP_PROTO=tcp",
			service+"_PORT_80_TCP_PORT=80", service+"_PORT_80_TCP_ADDR=10.96.0.1")
	}
	if c, err := FromEnvironment(given); err != nil || c.Port != 8480 || c.PeerPort != 8482 {
		t.Errorf("%d %d %v", c.Port, c.PeerPort, err)
	}
	if _, err := FromEnvironment(append(given, "STATEFUL_SERVICE_PORTS=1")); err == nil {
		t.Error("what looks like a setting is not refused")
	}
}
