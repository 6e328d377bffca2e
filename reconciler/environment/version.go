// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"strings"
)

// Where control planes say which version they must have, and which one runs. Providers of Cluster API agree on the
// first of each, and some have not always done so: GCPManagedControlPlane, RKE2ControlPlane.
var (
	declaredVersion = []string{
		"spec.version", "spec.controlPlaneVersion", "spec.agentConfig.version",
		"spec.kubernetesVersion",
	}
	runningVersion = []string{
		"status.version", "status.currentVersion", "status.controlPlaneVersion",
		"status.kubernetesVersion",
	}
)

// runs returns the version that a control plane runs, or a note if it does not say. While it is upgraded, that is not
// the declared one. Both may be written differently, such as v1.33 and 1.33.1: then it is the declared one in its own
// words.
func (o object) runs() (version, note string) {
	var wrong []string
	running, declared := o.field(&wrong, "version", runningVersion...), o.field(&wrong, "version", declaredVersion...)
	switch {
	case running == "" && declared == "":
		if len(wrong) == 0 {
			wrong = append(wrong, fmt.Sprintf("the version is unknown: %s %s does not say it", o.GetKind(), o.GetName()))
		}
		return "", strings.Join(wrong, "; ")
	case running == "" || declared != "" && sameVersion(running, declared):
		return declared, ""
	}
	return running, ""
}

// sameVersion reports whether one of the versions is the other one, perhaps with more detail.
func sameVersion(a, b string) bool {
	a, b = strings.TrimPrefix(a, "v"), strings.TrimPrefix(b, "v")
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, is := strings.CutPrefix(b, a)
	return is && (rest == "" || strings.ContainsAny(rest[:1], ".-+"))
}
