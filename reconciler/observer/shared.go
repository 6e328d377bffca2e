// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"

	"k8s.io/client-go/metadata"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Settings are those that decide about transitions. They may change at any time.
type Settings interface {
	Rules() lifecycle.Rules
}

// Shared is what the packages of all watched kinds are given.
type Shared struct {
	// Options are those of all observers; each kind adds its own Kind and Since.
	Options
	Registry  *Registry
	Baselines *Baselines
	// Presence knows which kinds exist.
	Presence *Presence
	Metadata metadata.Interface
	// Carried are the annotations that events need.
	Carried  []string
	Settings Settings
}

// Observe adds an observer of a kind to the Registry. Its baseline, which the ledger keeps under this name, is taken
// now: objects of a kind that is installed later are news.
func (s Shared) Observe(ctx context.Context, kind Kind, baseline string, q Queue) *Observer {
	o := s.Options
	o.Kind, o.Since = kind, s.Baselines.Since(baseline)
	go take(ctx, o.Since)
	return s.Registry.Observe(o, q)
}
