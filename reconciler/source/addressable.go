// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// addressOf reads the address from an object's status, or explains why there is none.
func addressOf(
	object *unstructured.Unstructured, desc string, name, caCerts *string, schemes transport.Schemes,
) (*duckv1.Addressable, error) {
	var status duckv1.AddressStatus
	raw, err := json.Marshal(object.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		return nil, valid.Problemf(valid.SinkNotAddressable, "The address in the status of %s cannot be read; check the "+
			"controller that sets it", desc)
	}
	addr, err := choose(status, desc, name)
	if err != nil {
		return nil, err
	}
	if addr == nil || addr.URL == nil {
		return nil, valid.Problemf(valid.SinkNotAddressable, "%s has no address yet (status.address.url): %s",
			desc, readiness(object))
	}
	if addr.URL.URL().Hostname() == "" {
		return nil, valid.Problemf(valid.SinkNotAddressable, "The address of %s has an empty hostname (status.address.url "+
			"is %s); check the controller that sets it", desc, valid.Redacted(addr.URL))
	}
	if v1alpha1.Shown(addr.URL) != addr.URL {
		return nil, valid.Problemf(valid.SinkHasCredentials, "The address of %s has credentials (status.address.url is %s), "+
			"which a status must not have; "+
			"remove them there, and specify them in spec.auth", desc, valid.Redacted(addr.URL))
	}
	if err := schemes.Check(addr.URL.URL()); err != nil {
		return nil, valid.Problemf(valid.SinkNotAddressable, "The address of %s cannot be used (status.address.url is %s): "+
			"%v; check the controller that sets it", desc, valid.Redacted(addr.URL), err)
	}
	addr = addr.DeepCopy()
	// Trust both the sink's own certificate authorities and those that the source adds.
	if caCerts != nil && *caCerts != "" {
		all := *caCerts
		if addr.CACerts != nil && *addr.CACerts != "" {
			all = strings.TrimRight(*addr.CACerts, "\n") + "\n" + all
		}
		addr.CACerts = &all
	}
	return addr, nil
}

// choose returns the address with that name, or the first one.
func choose(status duckv1.AddressStatus, desc string, name *string) (*duckv1.Addressable, error) {
	if name == nil || *name == "" {
		if len(status.Addresses) > 0 {
			return &status.Addresses[0], nil
		}
		return status.Address, nil
	}
	var names []string
	for i := range status.Addresses {
		if n := status.Addresses[i].Name; n != nil {
			if *n == *name {
				return &status.Addresses[i], nil
			}
			names = append(names, fmt.Sprintf("%q", *n))
		}
	}
	return nil, valid.Problemf(valid.SinkAddressNotFound, "%s has no address with the name %q; its addresses are %s",
		desc, *name, list(names))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	return strings.Join(names, ", ")
}

// word matches a valid reason of a condition.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// readiness reports the object's readiness. It does not quote messages: a user who may
// read the source may lack permission to read the object.
func readiness(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		if condition["status"] == "True" {
			return "it is Ready, so objects of this kind do not seem to accept events; use a Broker, a Channel, a " +
				"Service or another addressable"
		}
		if reason, ok := condition["reason"].(string); ok && word.MatchString(reason) {
			return fmt.Sprintf("it is not Ready (%s); see its status", reason)
		}
		return "it is not Ready; see its status"
	}
	return "its status does not say why; it may be new, or objects of this kind may not accept events"
}
