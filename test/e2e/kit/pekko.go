package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Pekko returns the application of test/pekko, on Apache Pekko's cluster sharding.
func (k *Kit) Pekko(namespace, image string) *Cart {
	return &Cart{Namespace: namespace, Image: image, manifests: k.Path("test", "pekko", "config"), management: "7626", ask: "7626/cluster/members", hosts: pekkoMembers}
}

// pekkoMembers parses the response of Pekko's management; members that join or leave do not count.
func pekkoMembers(body []byte) ([]string, error) {
	var said struct {
		Members []struct{ Node, Status string }
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, fmt.Errorf("reading the members: %w", err)
	}
	var hosts []string
	for _, m := range said.Members {
		_, address, _ := strings.Cut(m.Node, "@")
		node, err := url.Parse("tcp://" + address)
		if err != nil {
			return nil, fmt.Errorf("reading member %q: %w", m.Node, err)
		}
		if m.Status == "Up" {
			hosts = append(hosts, node.Hostname())
		}
	}
	return hosts, nil
}

// PekkoImage builds the image of test/pekko, and the client library of clients/pekko in it, with the machine's JDK and Maven. The process is short-lived, so the JVM uses
// only the first tier of its compiler.
func (k *Kit) PekkoImage(ctx context.Context) (string, error) {
	if !k.Own() {
		return "", fmt.Errorf("the image of test/pekko: only the program of test/cluster can build it")
	}
	const entrypoint = "/jre/bin/java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmx192m -cp /app/* dev.knativecdevents.cart.Main"
	out, err := run(ctx, k.root, nil, k.program, "image", "--maven", k.Path("test", "pekko"), "--needs", k.Path("clients", "pekko"), "--name", "apps/pekko", "--entrypoint", entrypoint)
	if err != nil {
		return "", fmt.Errorf("building the image of test/pekko: %w", err)
	}
	return strings.TrimSpace(out), nil
}

// PekkoShards returns the number of cart shards on each Revision's pods, from Pekko's own management.
func (k *Kit) PekkoShards(ctx context.Context, c *Cart) (map[string]int, error) {
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
