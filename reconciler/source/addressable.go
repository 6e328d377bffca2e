package source

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

// addressOf reads the address from an object's status, and where there is none
// finds out why.
func addressOf(object *unstructured.Unstructured, called string, name, caCerts *string) (*duckv1.Addressable, error) {
	var status duckv1.AddressStatus
	raw, err := json.Marshal(object.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		return nil, wrong("SinkNotAddressable", "The address in the status of %s cannot be read; check the controller that sets it", called)
	}
	addr, err := choose(status, called, name)
	if err != nil {
		return nil, err
	}
	if addr == nil || addr.URL == nil {
		return nil, wrong("SinkNotAddressable", "%s has no address yet (status.address.url): %s", called, whyNot(object))
	}
	if addr.URL.URL().Hostname() == "" {
		return nil, wrong("SinkNotAddressable", "The address of %s has an empty hostname (status.address.url is %s); check the controller that sets it", called, shown(addr.URL))
	}
	addr = addr.DeepCopy()
	// The sink's own authorities, and those that the source adds.
	if caCerts != nil && *caCerts != "" {
		all := *caCerts
		if addr.CACerts != nil && *addr.CACerts != "" {
			all = strings.TrimRight(*addr.CACerts, "\n") + "\n" + all
		}
		addr.CACerts = &all
	}
	return addr, nil
}

// choose takes the address of that name, or else the first.
func choose(status duckv1.AddressStatus, called string, name *string) (*duckv1.Addressable, error) {
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
	return nil, wrong("SinkAddressUnknown", "%s has no address with the name %q; its addresses are %s", called, *name, list(names))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	return strings.Join(names, ", ")
}

// word is what a reason of a condition looks like.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// whyNot says how far the object is. It does not quote messages: whoever may read the
// source need not be allowed to read the object.
func whyNot(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		if condition["status"] == "True" {
			return "it is Ready, so objects of this kind do not seem to accept events; use a Broker, a Channel, a Service or another addressable"
		}
		if reason, ok := condition["reason"].(string); ok && word.MatchString(reason) {
			return fmt.Sprintf("it is not Ready (%s); see its status", reason)
		}
		return "it is not Ready; see its status"
	}
	return "its status does not say why; it may be new, or objects of this kind may not accept events"
}
