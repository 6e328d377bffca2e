// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

func call(t *testing.T, args ...string) error {
	t.Helper()
	return dispatch(t.Context(), report.New(io.Discard), args)
}

func TestUsageErrorsDifferFromFailures(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"upp"}, {"up", "--wit", "serving"}} {
		if err := call(t, args...); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v", args, err)
		}
	}
	if err := call(t, "help"); err != nil {
		t.Errorf("help: %v", err)
	}
	for want, args := range map[string][]string{
		`no part "x"`:              {"up", "--with", "x"},
		"leave --control-plane":    {"up", "--with", "serving", "--control-plane-only"},
		"takes at most 0":          {"down", "now"},
		"--maven wants --name":     {"image", "--layer", "x.tar"},
		"and no import path":       {"image", "--layer", "x.tar", "--maven", "x", "--name", "x", "--entrypoint", "x"},
		"at least one import":      {"image"},
		"name the manifests":       {"apply"},
		"name one of the logs":     {"logs"},
		"takes at most 1 argument": {"logs", "a", "b"},
		"name one of the daemons":  {"restart", "kube-apiservr"},
		"name a signal":            {"signal", "HUP", "7d1f"},
		"the IP address of a pod":  {"network", "cut"},
		"that can be removed":      {"remove", "serving"},
	} {
		if err := call(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestVersionThatIsNotThereIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES", "1.2")
	if err := call(t, "assets"); err == nil || !strings.Contains(err.Error(), `no version "1.2" of kubernetes; there are 1.36, 1.34`) {
		t.Errorf("got %v", err)
	}
}

func TestParseReturnsArgumentsAfterFlags(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dir := flags.String("C", ".", "")
	rest, err := parse(flags, []string{"-C", "x", "./cmd/a", "./cmd/b"}, -1)
	if err != nil || *dir != "x" || strings.Join(rest, " ") != "./cmd/a ./cmd/b" {
		t.Errorf("got %q, %q, %v", *dir, rest, err)
	}
}

func TestStatusIsATable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := printStatus(&out, platform.Status{
		Daemons:     []platform.DaemonStatus{{Name: "etcd", PID: 7, Health: "ok", Version: "v3", Log: "/log"}, {Name: "kubelet", Health: "dead"}},
		Deployments: []platform.DeploymentStatus{{Namespace: "knative-serving", Name: "webhook", Health: "0 of 1 available"}},
		Addresses:   []platform.Address{{Name: "audit", Address: "/audit.log"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"etcd", "7 ", "dead", "knative-serving/webhook", "0 of 1", "/audit.log"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing from\n%s", want, out.String())
		}
	}
}
