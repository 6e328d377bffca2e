// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestSettings: in a pod, only the core's address is needed.
func TestSettings(t *testing.T) {
	pod := environment(map[string]string{
		"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", "SYSTEM_NAMESPACE": "knative-cdevents",
	})
	c, listen, err := settings([]string{"--core=https://core.example.com", "--sweep-interval=1m"}, pod)
	if err != nil {
		t.Fatal(err)
	}
	if c.Core.URL != "https://core.example.com" || c.API.URL != "https://[fd00::1]:6443" || c.Namespace != "knative-cdevents" ||
		c.SweepEvery != time.Minute || c.Parallel != 4 || listen != ":9090" || c.API.TokenFile != account+"token" {
		t.Errorf("got %+v, listening at %s", c, listen)
	}
}

// TestWrongSettings: the message says what would be right.
func TestWrongSettings(t *testing.T) {
	const core, server = "--core=http://core", "--server=http://127.0.0.1:1"
	for want, args := range map[string][]string{
		`the address of the core is ""`:       {server},
		`the address of the core is "core"`:   {server, "--core=core"},
		`the address of the API server is ""`: {core},
		"set SYSTEM_NAMESPACE to it":          {core, server},
		"--sweep-interval is 1ms":             {core, server, "--namespace=x", "--sweep-interval=1ms"},
		"--ring-timeout is -1s":               {core, server, "--namespace=x", "--ring-timeout=-1s"},
		"both must be at least 1":             {core, server, "--namespace=x", "--parallel=0"},
		"not a flag":                          {core, "http://core"},
		"flag provided but not defined":       {"--cor=http://core"},
		"reading the certificates":            {core, server, "--namespace=x", "--server-ca-file=/does/not/exist"},
	} {
		var out bytes.Buffer
		err := run(slog.New(slog.NewTextHandler(&out, nil)), args, environment(nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want %q", args, err, want)
		}
	}
}
