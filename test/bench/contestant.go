package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// contestant is one of the programs that are compared.
type contestant struct {
	// Name in the report; it is also the user by which the API server knows the program.
	Name   string
	binary string
	// env is what the program is told beside its kubeconfig.
	env func(s *stage) []string
	// decode returns the change that an event tells of, false where it tells of something else.
	decode func(request) (change, bool)
	// silent is for how long it may send nothing while there is something to be sent.
	silent time.Duration
}

// They are compared in this order, which is turned by one at each repeat.
var (
	ours = contestant{
		Name: "knative-cdevents", binary: "controller", decode: fromCDEvent,
		silent: 30 * time.Second, // after a kill it waits until the lease has run out
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

// watchAll makes the adapter watch what the controller watches, in all namespaces, and send whole objects: an event
// that only refers to a Route would not say what changed.
const watchAll = `{"allNamespaces":true,"namespaces":[""],"mode":"Resource","resources":[` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"services"}},` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"routes"}},` +
	`{"gvr":{"Group":"serving.knative.dev","Version":"v1","Resource":"revisions"}}]}`

func (c contestant) path(dir string) string { return filepath.Join(dir, c.binary) }

// rotated returns the contestants beginning with another one at each repeat.
func rotated(repeat int) []contestant {
	n := repeat % len(contestants)
	return append(append([]contestant{}, contestants[n:]...), contestants[:n]...)
}

// older and newer are the Revisions of a Service that traffic is split between.
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

// target is an entry of a Route's status.
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

// String names the contestant in progress and errors.
func (c contestant) String() string { return fmt.Sprintf("%-16s", c.Name) }
