// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestSettings: as a Knative Service, nothing has to be set but the namespace.
func TestSettings(t *testing.T) {
	t.Parallel()
	pod := environment(map[string]string{"PORT": "8012", "SYSTEM_NAMESPACE": "ours"})
	c, err := settings(nil, pod)
	if err != nil || c.listen != ":8012" || c.namespace != "ours" || c.audience != defaultAudience || c.within >= time.Minute ||
		len(c.senders) != 1 || c.senders[0] != (types.NamespacedName{Namespace: "ours", Name: "doorbell"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	c, err = settings([]string{"--senders=ours/doorbell,knative-eventing/mt-broker-filter"}, pod)
	if err != nil || len(c.senders) != 2 || c.senders[1].Name != "mt-broker-filter" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestWrongSettings: the message says what would be right.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	const ours = "--namespace=ours"
	for want, args := range map[string][]string{
		"set SYSTEM_NAMESPACE to it":    {},
		`--senders has "doorbell"`:      {ours, "--senders=doorbell"},
		`--senders has ""`:              {ours, "--senders=ours/doorbell,"},
		"no token for anything else":    {ours, "--audience="},
		"--answer-timeout is 1ms":       {ours, "--answer-timeout=1ms"},
		"--parallel is 0":               {ours, "--parallel=0"},
		"not a flag":                    {ours, "http://core"},
		"flag provided but not defined": {"--cor"},
		"looking for the API server":    {ours, "--kubeconfig=/does/not/exist"},
	} {
		err := run(zap.NewNop().Sugar(), args, environment(nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want %q", args, err, want)
		}
	}
}
