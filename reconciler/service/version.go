// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// LeastVersion is the oldest version of Knative Serving that is supported, docs/support.md: with request metrics, the
// queue-proxy of v1.19.0 listens twice on port 9090, and does not start. MinVersionKey is the environment variable with
// another one. Knative's libraries have KUBERNETES_MIN_VERSION for Kubernetes.
const (
	LeastVersion  = "v1.19.1"
	MinVersionKey = "SERVING_MIN_VERSION"
)

const (
	versionLabel = "app.kubernetes.io/version"
	// lookup is how long a start may wait for the definition.
	lookup = 10 * time.Second
)

// CheckVersion returns an error if Knative Serving is older than the least version. It reads a label of the definition
// of Services. If Serving is not installed, or does not say its version, as a build of its own repository, or cannot be
// asked, the process starts: Serving may come later, and what is unknown is no reason for missing events.
func CheckVersion(ctx context.Context, definitions metadata.Interface) error {
	least, err := version.ParseGeneric(cmp.Or(os.Getenv(MinVersionKey), LeastVersion))
	if err != nil {
		return fmt.Errorf("the environment variable %s is not a version such as %s: %w", MinVersionKey, LeastVersion, err)
	}
	log := logging.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	found, err := definitions.Resource(observer.Definitions).Get(ctx, Resource, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		log.Infow("The version of Knative Serving is not checked: its definition cannot be read", "definition", Resource, "error", err)
		return nil
	}
	label := found.Labels[versionLabel]
	installed, err := version.ParseGeneric(label)
	if err != nil {
		log.Infow("The version of Knative Serving is not checked: the label of its definition is not a version",
			"definition", Resource, "label", versionLabel, "value", label)
		return nil
	}
	if installed.LessThan(least) {
		return fmt.Errorf("version %s of Knative Serving is not supported; it must be at least %s. The version is that of label %s of "+
			"CustomResourceDefinition %s. Upgrade Serving, or set the environment variable %s=v%s to try this version: "+
			"gates may lack figures", installed, least, versionLabel, Resource, MinVersionKey, installed)
	}
	return nil
}
