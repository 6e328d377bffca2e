// SPDX-License-Identifier: Apache-2.0

// Command compose is a composition function for Crossplane: it composes the clusters of the tests from NopResources,
// which only pretend to provision something. The spec of a composite says when they become ready:
//
//	resources: 2      # how many NopResources, 1 by default
//	readyAfter: 5s    # the time from the creation to Ready
//	upgradeAfter: 5s  # the time for which another version is not Ready
//	deletionPolicy: Orphan
//	managementPolicies: [Observe]
//
// What goes wrong is not declared by a user, and therefore in annotations:
//
//	platform.example.com/trouble: Unavailable  # the reason why the resources are not Ready
//	platform.example.com/broken: a message     # the composition fails, so that the composite is not Synced
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	function "github.com/crossplane/function-sdk-go"
	v1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/resource"
	"github.com/crossplane/function-sdk-go/response"
)

// spec is the part of a composite's spec that steers it.
type spec struct {
	Version            string   `json:"version"`
	Region             string   `json:"region"`
	Resources          int      `json:"resources"`
	ReadyAfter         string   `json:"readyAfter"`
	UpgradeAfter       string   `json:"upgradeAfter"`
	DeletionPolicy     string   `json:"deletionPolicy"`
	ManagementPolicies []string `json:"managementPolicies"`
}

// condition is an entry of a NopResource's conditionAfter; its time counts from the creation of the resource.
type condition = map[string]any

type composer struct {
	v1.UnimplementedFunctionRunnerServiceServer
}

// RunFunction composes the resources of one composite.
func (composer) RunFunction(_ context.Context, req *v1.RunFunctionRequest) (*v1.RunFunctionResponse, error) {
	rsp := response.To(req, response.DefaultTTL)
	if err := compose(req, rsp); err != nil {
		response.Fatal(rsp, err)
	}
	return rsp, nil
}

func compose(req *v1.RunFunctionRequest, rsp *v1.RunFunctionResponse) error {
	composite, err := request.GetObservedCompositeResource(req)
	if err != nil {
		return fmt.Errorf("reading the composite: %w", err)
	}
	want := spec{Resources: 1, ReadyAfter: "5s", UpgradeAfter: "5s"}
	if err := composite.Resource.GetValueInto("spec", &want); err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	wrong := composite.Resource.GetAnnotations()
	if message := wrong["platform.example.com/broken"]; message != "" {
		return errors.New(message)
	}
	observed, err := request.GetObservedComposedResources(req)
	if err != nil {
		return fmt.Errorf("reading the composed resources: %w", err)
	}
	// A namespaced composite may compose only resources of its namespace.
	kind := "ClusterNopResource"
	if composite.Resource.GetNamespace() != "" {
		kind = "NopResource"
	}
	desired := map[resource.Name]*resource.DesiredComposed{}
	for i := range want.Resources {
		name := resource.Name(fmt.Sprintf("part-%d", i))
		d := resource.NewDesiredComposed()
		d.Resource.SetAPIVersion("nop.crossplane.io/v1alpha1")
		d.Resource.SetKind(kind)
		conditions, err := want.conditions(observed[name], wrong["platform.example.com/trouble"])
		if err != nil {
			return err
		}
		err = d.Resource.SetValue("spec.forProvider", map[string]any{
			"conditionAfter": conditions,
			"fields":         map[string]any{"version": want.Version, "region": want.Region},
		})
		if err == nil && want.DeletionPolicy != "" {
			err = d.Resource.SetValue("spec.deletionPolicy", want.DeletionPolicy)
		}
		if err == nil && len(want.ManagementPolicies) > 0 {
			err = d.Resource.SetValue("spec.managementPolicies", want.ManagementPolicies)
		}
		if err != nil {
			return fmt.Errorf("composing %s: %w", name, err)
		}
		if is := observed[name]; is.Resource != nil && is.Resource.GetCondition("Ready").Status == "True" {
			d.Ready = resource.ReadyTrue
		}
		desired[name] = d
	}
	if err := response.SetDesiredComposedResources(rsp, desired); err != nil {
		return fmt.Errorf("answering with the resources: %w", err)
	}
	status, err := request.GetDesiredCompositeResource(req)
	if err != nil {
		return fmt.Errorf("reading the desired composite: %w", err)
	}
	host := composite.Resource.GetName() + "." + want.Region + ".example.com"
	if err := status.Resource.SetValue("status.endpoint", "https://"+host+":6443"); err != nil {
		return fmt.Errorf("naming the endpoint: %w", err)
	}
	if err := response.SetDesiredCompositeResource(rsp, status); err != nil {
		return fmt.Errorf("answering with the composite: %w", err)
	}
	return nil
}

// conditions says when a resource, as observed, becomes ready. An existing resource keeps its conditions until the
// version changes.
func (s spec) conditions(is resource.ObservedComposed, trouble string) ([]any, error) {
	if trouble != "" {
		return []any{ready(0, "False", trouble)}, nil
	}
	wait, err := time.ParseDuration(s.ReadyAfter)
	if err != nil {
		return nil, fmt.Errorf("reading readyAfter: %w", err)
	}
	made := []any{ready(0, "False", "Creating"), ready(wait, "True", "Available")}
	if is.Resource == nil {
		return made, nil
	}
	version, err := is.Resource.GetString("spec.forProvider.fields.version")
	if err != nil {
		return nil, fmt.Errorf("reading the version of %s: %w", is.Resource.GetName(), err)
	}
	if version != s.Version {
		upgrade, err := time.ParseDuration(s.UpgradeAfter)
		if err != nil {
			return nil, fmt.Errorf("reading upgradeAfter: %w", err)
		}
		age := time.Since(is.Resource.GetCreationTimestamp().Time).Round(time.Second)
		return []any{ready(0, "False", "Updating"), ready(age+upgrade, "True", "Available")}, nil
	}
	var kept []any
	if err := is.Resource.GetValueInto("spec.forProvider.conditionAfter", &kept); err != nil {
		return nil, fmt.Errorf("reading the conditions of %s: %w", is.Resource.GetName(), err)
	}
	if len(kept) < len(made) { // the trouble is over
		return made, nil
	}
	return kept, nil
}

func ready(after time.Duration, status, reason string) condition {
	return condition{"time": after.String(), "conditionType": "Ready", "conditionStatus": status, "conditionReason": reason}
}

func main() {
	err := function.Serve(composer{}, function.Listen("tcp", ":9443"), function.MTLSCertificates(os.Getenv("TLS_SERVER_CERTS_DIR")))
	fmt.Fprintln(os.Stderr, "serving compositions:", err)
	os.Exit(1)
}
