// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// contestant is one of the programs under comparison.
type contestant struct {
	// Name in the report. It is also the program's user name at the API server.
	Name   string
	binary string
	// env returns the program's environment besides its kubeconfig.
	env func(s *stage) []string
	// decode returns the change that an event reports; false if it reports something else.
	decode func(request) (change, bool)
	// start starts the programs of a contestant that needs more than one.
	start func(context.Context, *turn) error
	// silent is how long it may send nothing while events are pending.
	silent time.Duration
}

// The order of comparison, which is rotated by one at each repeat.
var (
	ours = contestant{
		Name: "knative-cdevents", binary: "controller", decode: fromCDEvent,
		silent: 30 * time.Second, // after a kill it waits until the lease expires
		env: func(*stage) []string {
			return []string{
				"SYSTEM_NAMESPACE=" + systemNamespace, "POD_NAME=controller-0",
				"CONFIG_LOGGING_NAME=config-logging", "CONFIG_OBSERVABILITY_NAME=config-observability",
				"CONFIG_LEADERELECTION_NAME=config-leader-election",
			}
		},
	}
	apiServerSource = contestant{
		Name: "ApiServerSource", binary: "apiserver_receive_adapter", decode: fromResource, silent: 10 * time.Second,
		env: func(s *stage) []string {
			return []string{
				"K_SINK=" + s.sink.url, "K_SOURCE_CONFIG=" + watchAll, "NAME=bench", "NAMESPACE=" + namespace,
				"SYSTEM_NAMESPACE=" + systemNamespace, "METRICS_DOMAIN=knative.dev/eventing",
			}
		},
	}
	bare = contestant{
		Name: "bare", binary: "bare", decode: fromBare, silent: 10 * time.Second,
		env: func(s *stage) []string { return []string{"K_SINK=" + s.sink.url} },
	}
	contestants = []contestant{ours, apiServerSource, bare}
)

// watchAll makes the adapter watch what the controller watches, in all namespaces, and send whole objects: a reference
// to a Route would not say what changed.
const watchAll = `{"allNamespaces":true,"namespaces":[""],"mode":"Resource","resources":[` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"services"}},` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"routes"}},` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"revisions"}}]}`

func (c contestant) path(dir string) string { return filepath.Join(dir, c.binary) }

// rotated returns the contestants in the order of a repeat.
func rotated(repeat int) []contestant {
	n := repeat % len(contestants)
	return append(append([]contestant{}, contestants[n:]...), contestants[:n]...)
}

// older and newer are the two Revisions that share a Service's traffic.
func older(service string) string { return service + "-00001" }
func newer(service string) string { return service + "-00002" }

func fromCDEvent(r request) (change, bool) {
	if !strings.Contains(r.Type, ".knative-traffic.shifted.") {
		return change{}, false
	}
	var ev struct {
		CustomData struct {
			Knative struct {
				Name    string
				Traffic []struct {
					Revision string
					Percent  int64
				}
			}
		}
	}
	if json.Unmarshal(r.Body, &ev) != nil {
		return change{}, false
	}
	k := ev.CustomData.Knative
	for _, t := range k.Traffic {
		if t.Revision == newer(k.Name) {
			return change{k.Name, t.Percent}, true
		}
	}
	return change{}, false
}

// target is a traffic target in a Route's status.
type target struct {
	RevisionName string
	Percent      int64
}

func splitOf(name string, traffic []target) (change, bool) {
	for _, t := range traffic {
		if t.RevisionName == newer(name) {
			return change{name, t.Percent}, true
		}
	}
	return change{}, false
}

func fromResource(r request) (change, bool) {
	var o struct {
		Kind     string
		Metadata struct{ Name string }
		Status   struct{ Traffic []target }
	}
	if json.Unmarshal(r.Body, &o) != nil || o.Kind != "Route" {
		return change{}, false
	}
	return splitOf(o.Metadata.Name, o.Status.Traffic)
}

func fromBare(r request) (change, bool) {
	var o struct {
		Name    string
		Traffic []target
	}
	if json.Unmarshal(r.Body, &o) != nil {
		return change{}, false
	}
	return splitOf(o.Name, o.Traffic)
}

// String returns the name for progress and errors.
func (c contestant) String() string { return fmt.Sprintf("%-16s", c.Name) }
