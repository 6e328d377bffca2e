// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"path/filepath"
)

func (p *Platform) eventing(ctx context.Context) error {
	dir, err := p.builder.ModuleDir(ctx, "eventing", "knative.dev/eventing")
	if err != nil {
		return err
	}
	objects, err := read(nil,
		filepath.Join(dir, "config", "core"),
		// The controller reads its images' names from these ConfigMaps, and does not start without them.
		filepath.Join(dir, "third_party", "eventing-integrations-latest"),
		filepath.Join(dir, "config", "channels", "in-memory-channel"),
		filepath.Join(dir, "config", "brokers", "mt-channel-broker"))
	if err != nil {
		return err
	}
	if err := p.install(ctx, "eventing", "knative-eventing", objects, map[string]map[string]string{"config-observability": {"metrics-protocol": "prometheus"}}); err != nil {
		return err
	}
	return p.settle(ctx, "knative-eventing")
}
