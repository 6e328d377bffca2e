// SPDX-License-Identifier: Apache-2.0

package environment_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
)

// An object without a namespace has another form of key than others.
func TestLifeOfEnvironmentsWithoutANamespace(t *testing.T) {
	s := newStage(t)
	s.ns = ""
	s.allow()
	s.start()
	kind := s.define("nop.crossplane.io", "FleetCluster", "fleetclusters", true)
	s.marked("fleetcluster.nop.crossplane.io", environment.Readable)
	s.create(kind, "FleetCluster", "eu", nil)
	s.announced("FleetCluster/eu", "CrossplaneClusterCreated")
	s.ready(kind, "eu")
	s.announced("FleetCluster/eu", "CrossplaneClusterCreated", "EnvironmentCreated")
	s.remove(kind, "eu")
	s.announced("FleetCluster/eu", "CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted")
}
