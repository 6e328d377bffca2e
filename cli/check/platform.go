// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
)

// The versions that the product is tested with as a whole, and the oldest that it is made for: docs/support.md.
const (
	testedKubernetes = "1.36"
	oldestKubernetes = "1.34"
	testedServing    = "1.23"
	oldestServing    = "1.19.1"
)

const (
	servingNamespace = "knative-serving"
	metricsKey       = "request-metrics-protocol"
	oldMetricsKey    = "metrics.request-metrics-backend-destination"
)

func kubernetes(v string) Result {
	r := fine("Kubernetes", "%s", v)
	parsed, err := version.ParseGeneric(v)
	switch {
	case err != nil:
		r.State, r.Do = Warning, "The version is not one of Kubernetes; "+tested
	case parsed.LessThan(version.MustParseGeneric(oldestKubernetes)):
		r.State, r.Do = Failure, fmt.Sprintf("Update Kubernetes to %s or newer; %s", oldestKubernetes, tested)
	}
	return r
}

const tested = "the product is tested with Kubernetes " + testedKubernetes + " and Knative Serving " + testedServing

// serving looks whether Knative Serving is installed, and which version it has.
func (c *Checker) serving(ctx context.Context) Result {
	const name = "Knative Serving"
	served, err := c.Served(ctx, servingv1.SchemeGroupVersion)
	if err != nil {
		return unseen(name, err)
	}
	if !slices.Contains(served, "services") {
		return Result{
			Check: name, State: Failure, What: "it is not installed: the API server does not serve its Services",
			Do: "Install Knative Serving; the controller waits for it, and needs no restart",
		}
	}
	// The controller reads the same label when it starts.
	v, _, err := c.DefinitionVersion(ctx, "services."+servingv1.SchemeGroupVersion.Group)
	if err != nil {
		return Result{Check: name, State: Unknown, What: "it is installed; its version is not known: " + err.Error()}
	}
	return servingVersion(name, v)
}

func servingVersion(name, v string) Result {
	parsed, err := version.ParseGeneric(v)
	r := fine(name, "%s", v)
	switch {
	case err != nil:
		r.State = Unknown
		r.What = fmt.Sprintf("it is installed; its version is not known: label %s of its definitions is %q", reader.VersionLabel, v)
	case parsed.LessThan(version.MustParseGeneric(oldestServing)):
		r.State = Failure
		r.Do = fmt.Sprintf("Update Knative Serving to %s or newer, the controller starts with no older one; %s", oldestServing, tested)
	}
	return r
}

// definitions looks whether the API server serves all kinds, and which version they are of.
func (c *Checker) definitions(ctx context.Context) Result {
	const name = "Custom resources"
	served, err := c.Served(ctx, v1alpha1.SchemeGroupVersion)
	if err != nil {
		return unseen(name, err)
	}
	var missing, other []string
	unread := false
	for _, resource := range reader.Definitions() {
		full := resource + "." + v1alpha1.GroupName
		if !slices.Contains(served, resource) {
			missing = append(missing, full)
			continue
		}
		v, found, err := c.DefinitionVersion(ctx, full)
		switch {
		case err != nil || !found:
			unread = true
		case orDevel(v) != released.Current():
			other = append(other, full+" ("+orDevel(v)+")")
		}
	}
	all := len(reader.Definitions())
	switch {
	case len(missing) == all:
		return Result{
			Check: name, State: Failure, What: "knative-cdevents is not installed in this cluster",
			Do: "Install it: " + released.Docs("getting-started.md"),
		}
	case len(missing) > 0:
		return Result{
			Check: name, State: Failure, What: "these are not served: " + strings.Join(missing, ", "),
			Do: "Apply all manifests of the installed version again",
		}
	case len(other) > 0:
		return Result{
			Check: name, State: Warning,
			What: fmt.Sprintf("of another version than this plugin (%s): %s", released.Current(), strings.Join(other, ", ")),
			Do:   "Use the plugin of that version, or update the installation: kubectl cdevents version",
		}
	case unread:
		return fine(name, "all %d are served; of which version they are is not known", all)
	}
	return fine(name, "all %d are served, of version %s", all, released.Current())
}

func orDevel(v string) string {
	if v == "" {
		return released.Devel
	}
	return v
}

// requestMetrics looks whether queue-proxy exports what gates judge by.
func (c *Checker) requestMetrics(ctx context.Context) Result {
	const name = "Request metrics"
	m, err := c.ConfigMap(ctx, servingNamespace, "config-observability")
	if err != nil {
		return unseen(name, err)
	}
	if m != nil {
		for _, key := range []string{metricsKey, oldMetricsKey} {
			if m.Data[key] == "prometheus" {
				return fine(name, "Serving exports them (%s: prometheus)", key)
			}
		}
	}
	r := Result{
		Check: name, State: Warning,
		What: fmt.Sprintf("Serving does not export them (ConfigMap config-observability in namespace %s), so gates cannot judge "+
			"ordinary Services", servingNamespace),
		Do: "Turn them on; Serving then rolls out new pods for every Revision: kubectl patch configmap config-observability -n " +
			servingNamespace + ` --type merge -p '{"data":{"` + metricsKey + `":"prometheus"}}'`,
	}
	if m != nil && m.Data[metricsKey] != "" && m.Data[metricsKey] != "none" {
		r.What = fmt.Sprintf("Serving exports them by %s, and gates read them with the protocol prometheus only", m.Data[metricsKey])
	}
	return r
}
