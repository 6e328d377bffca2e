// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Pekko returns the application of test/pekko, on Apache Pekko's cluster sharding.
func (k Carts) Pekko(namespace, image string) *Cart {
	return &Cart{
		Namespace: namespace, Image: image, manifests: k.Path("test", "pekko", "config"), shardOf: shardByHashCode,
		management: "7626", ask: "7626/cluster/members", hosts: pekkoMembers,
	}
}

// pekkoMembers parses the response of Pekko's management, or of a sidecar, whose nodes are plain addresses. Members that
// join or leave do not count.
func pekkoMembers(body []byte) ([]string, error) {
	var said struct {
		Members []struct{ Node, Status string }
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, fmt.Errorf("reading the members: %w", err)
	}
	var hosts []string
	for _, m := range said.Members {
		node, err := url.Parse("tcp://" + m.Node[strings.Index(m.Node, "@")+1:])
		if err != nil {
			return nil, fmt.Errorf("reading member %q: %w", m.Node, err)
		}
		if m.Status == "Up" {
			hosts = append(hosts, node.Hostname())
		}
	}
	return hosts, nil
}

// Akka returns the application of test/akka: that of test/pekko, on Akka's cluster sharding.
func (k Carts) Akka(namespace, image string) *Cart {
	c := k.Pekko(namespace, image)
	c.Annotations = map[string]string{"stateful.knative-cdevents.dev/runtime": "akka"}
	return c
}

// PekkoImage builds the image of test/pekko, and the client library of clients/pekko in it, with the machine's JDK and
// Maven.
func (k Carts) PekkoImage(ctx context.Context) (string, error) { return k.mavenImage(ctx, "pekko") }

// AkkaImage does the same with test/akka and clients/akka, whose sources are made from those for Pekko.
func (k Carts) AkkaImage(ctx context.Context) (string, error) {
	return k.mavenImage(ctx, "akka", "--reads", k.Path("test", "pekko"), "--reads", k.Path("clients", "pekko"))
}

// mavenImage builds the application on a runtime. The process is short-lived, so the JVM uses only the first tier of
// its compiler.
func (k Carts) mavenImage(ctx context.Context, runtime string, more ...string) (string, error) {
	if !k.Own() {
		return "", fmt.Errorf("the image of test/%s: only the program of test/cluster can build it", runtime)
	}
	const entrypoint = "/jre/bin/java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmx192m -cp /app/* dev.knativecdevents.cart.Main"
	args := []string{"image", "--maven", k.Path("test", runtime), "--needs", k.Path("clients", runtime), "--name", "apps/" + runtime, "--entrypoint", entrypoint}
	out, err := run(ctx, k.root, nil, k.program, append(args, more...)...)
	if err != nil {
		return "", fmt.Errorf("building the image of test/%s: %w", runtime, err)
	}
	return strings.TrimSpace(out), nil
}

// PekkoShards returns the number of cart shards on each Revision's pods, from Pekko's own management.
func (k Carts) PekkoShards(ctx context.Context, c *Cart) (map[string]int, error) {
	owners, err := k.ShardOwners(ctx, c)
	if err != nil {
		return nil, err
	}
	shards := map[string]int{}
	for _, o := range owners {
		shards[o.Revision]++
	}
	return shards, nil
}
