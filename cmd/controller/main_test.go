package main

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestCheckNamespace(t *testing.T) {
	if err := checkNamespace("knative-cdevents"); err != nil {
		t.Error(err)
	}
	if err := checkNamespace(notSet); err == nil || !strings.Contains(err.Error(), "SYSTEM_NAMESPACE") {
		t.Errorf("got %v", err)
	}
}

func TestAPIServerIsRefused(t *testing.T) {
	for host, want := range map[string]string{
		"https://10.96.0.1:443": "10.96.0.1/32", "https://[fd00::1]:443": "fd00::1/128", "https://api.example.com": "", "::": "",
	} {
		got := ""
		if p := apiServer(&rest.Config{Host: host}); len(p) > 0 {
			got = p[0].String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}
