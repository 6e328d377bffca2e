// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestCheckNamespace(t *testing.T) {
	if err := checkNamespace("knative-cdevents"); err != nil {
		t.Error(err)
	}
	if err := checkNamespace(""); err == nil || !strings.Contains(err.Error(), "SYSTEM_NAMESPACE") {
		t.Errorf("got %v", err)
	}
}
