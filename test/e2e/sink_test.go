// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// sink is a receiver in the cluster. Requests to it go through the API server.
type sink struct {
	ns, selector string
}

// event is a request that the sink received, with its parsed body.
type event struct {
	Number int         `json:"number"`
	Time   time.Time   `json:"time"`
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	Status int         `json:"status"`

	cd         cdevent
	structured bool
}

// cdevent has the fields of a CDEvent that the tests use. The schema checks all of it.
type cdevent struct {
	Context struct {
		SpecVersion string `json:"specversion"`
		Version     string `json:"version"` // the name of specversion until 0.4
		ID          string `json:"id"`
		Source      string `json:"source"`
		Type        string `json:"type"`
		Timestamp   string `json:"timestamp"`
		ChainID     string `json:"chainId"`
	} `json:"context"`
	Subject struct {
		ID      string `json:"id"`
		Content struct {
			Environment *struct {
				ID string `json:"id"`
			} `json:"environment"`
			ArtifactID string `json:"artifactId"`
			URI        string `json:"uri"`
		} `json:"content"`
	} `json:"subject"`
	CustomData struct {
		Knative struct {
			Namespace, Name, UID string
			Revision             *struct{ Name string }
			PreviousRevision     *struct{ Name string }
			Traffic              []struct {
				Revision string
				Percent  int64
			}
			URLs []string
		} `json:"knative"`
		Environment *environmentData `json:"environment"`
		Incident    struct{ Kind string }
		Reason      string `json:"reason"`
	} `json:"customData"`
}

// environmentData is what events tell of an environment.
type environmentData struct {
	Kind, Namespace, Name, UID, Provider, Version, Class string
	Pools, Changed                                       []string
	Previous                                             *environmentData
}

func (e event) String() string {
	body := string(e.Body)
	if len(body) > 600 {
		body = body[:600] + " …"
	}
	return fmt.Sprintf("%3d %s %s %s %s %s → %d  %s", e.Number, e.Time.Format("15:04:05.000"), e.Path,
		e.Header.Get("Ce-Type"), e.Header.Get("Ce-Subject"), e.Header.Get("Ce-Id"), e.Status, body)
}

// events returns all requests so far.
func (k *sink) events(ctx context.Context) ([]event, error) {
	all, err := k.requests(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].read(); err != nil {
			return nil, fmt.Errorf("request %d has no JSON body: %w: %s", all[i].Number, err, all[i])
		}
	}
	return all, nil
}

// requests returns all requests so far, and reads none.
func (k *sink) requests(ctx context.Context) ([]event, error) {
	path, err := suite.Workloads.Request(ctx, k.ns, k.selector)
	if err != nil {
		return nil, err
	}
	data, err := suite.Kube.CoreV1().RESTClient().Get().AbsPath(path, "requests").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the sink's requests: %w", err)
	}
	var all []event
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("parsing the sink's requests: %w", err)
	}
	return all, nil
}

// read parses the body. In structured mode the body contains attributes and data; read puts them where they are in
// binary mode.
func (e *event) read() error {
	if e.Header.Get("Content-Type") == "application/cloudevents+json" {
		e.structured = true
		var all map[string]json.RawMessage
		if err := json.Unmarshal(e.Body, &all); err != nil {
			return err
		}
		for name, raw := range all {
			var value string
			switch {
			case name == "data":
				e.Body = raw
			case json.Unmarshal(raw, &value) != nil:
				return fmt.Errorf("attribute %s is %s", name, raw)
			case name == "datacontenttype":
				e.Header.Set("Content-Type", value)
			default:
				e.Header.Set("Ce-"+name, value)
			}
		}
	}
	return json.Unmarshal(e.Body, &e.cd)
}

// compactJSON normalizes JSON.
func compactJSON(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return compact(v)
}

// fault sets the sink's response to the next requests.
func (k *sink) fault(ctx context.Context, fault string) error {
	path, err := suite.Workloads.Request(ctx, k.ns, k.selector)
	if err != nil {
		return err
	}
	_, err = suite.Kube.CoreV1().RESTClient().Post().AbsPath(path, "fault").Body([]byte(fault)).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("setting fault %s: %w", fault, err)
	}
	return nil
}

// about selects the events of one Knative Service.
func about(name string) func(event) bool {
	return func(e event) bool { return e.cd.CustomData.Knative.Name == name }
}

// typed selects the events of a type.
func typed(want string) func(event) bool {
	return func(e event) bool { return e.Header.Get("Ce-Type") == want }
}

// at selects the events that were sent to a path.
func at(path string) func(event) bool {
	return func(e event) bool { return e.Path == path }
}

func accepted(e event) bool { return e.Status < 300 }

// choose returns the events that pass every filter.
func choose(all []event, filters ...func(event) bool) []event {
	return slices.DeleteFunc(slices.Clone(all), func(e event) bool {
		return slices.ContainsFunc(filters, func(pass func(event) bool) bool { return !pass(e) })
	})
}

// patience is how long the tests wait for events.
const patience = time.Minute

// atLeast waits until as many selected events have arrived as there are types.
func (k *sink) atLeast(t *testing.T, types []string, filters ...func(event) bool) {
	t.Helper()
	err := kit.Wait(t.Context(), patience, "the events", func(ctx context.Context) error {
		all, err := k.events(ctx)
		if err != nil {
			return err
		}
		if got := choose(all, filters...); len(got) < len(types) {
			return kit.NotYet("%d of %d arrived: %s", len(got), len(types), strings.Join(typesOf(got), ", "))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exactly waits until the selected events have exactly these types, in this order, and no more arrive.
func (k *sink) exactly(t *testing.T, types []string, filters ...func(event) bool) []event {
	t.Helper()
	k.atLeast(t, types, filters...)
	time.Sleep(still)
	all, err := k.events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := choose(all, filters...)
	if !slices.Equal(typesOf(got), types) {
		t.Fatalf("received\n  %s\nwant\n  %s", strings.Join(typesOf(got), "\n  "), strings.Join(types, "\n  "))
	}
	return got
}

func typesOf(all []event) []string {
	types := make([]string, len(all))
	for i, e := range all {
		types[i] = e.Header.Get("Ce-Type")
	}
	return types
}
