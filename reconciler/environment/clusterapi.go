// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// clusterKind is the Cluster of Cluster API.
var clusterKind = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}

// What Cluster API writes on objects.
const (
	labelTopologyOwned    = "topology.cluster.x-k8s.io/owned"
	annotationMoved       = "clusterctl.cluster.x-k8s.io/delete-for-move"
	annotationPaused      = "cluster.x-k8s.io/paused"
	conditionAvailable    = "Available"
	conditionReady        = "Ready"
	conditionTopology     = "TopologyReconciled"
	conditionRollingOut   = "RollingOut"
	conditionScalingUp    = "ScalingUp"
	conditionControlPlane = "ControlPlaneAvailable"
	conditionProbe        = "RemoteConnectionProbe"
	conditionInitialized  = "ControlPlaneInitialized"
)

func (o object) isClusterAPI() bool { return o.GroupVersionKind().GroupKind() == clusterKind }

// clusterAPI reads a Cluster of Cluster API, of v1beta1 or v1beta2.
//
// The phase is not used: it says Provisioned long before the cluster is available, and stays so. Conditions are
// those of v1beta2, which v1beta1 has in status.v1beta2 since Cluster API 1.9.
func (o object) clusterAPI(v *value) {
	f := &v.Facts
	conditions, old := o.clusterConditions()
	ready, known := conditions[conditionAvailable]
	if !known {
		ready, known = old[conditionReady], true
	}
	topology, managed := o.at("spec", "topology").(map[string]any)
	annotations := o.GetAnnotations()
	_, f.Kept = annotations[annotationMoved]
	_, paused := annotations[annotationPaused]
	stopped, _ := o.at("spec", "paused").(bool)
	f.Resting = paused || stopped || o.GetDeletionTimestamp() != nil
	f.Ready = known && ready.is(metav1.ConditionTrue)
	f.EverReady = conditions[conditionInitialized].is(metav1.ConditionTrue) ||
		old[conditionInitialized].is(metav1.ConditionTrue)
	f.Settled, f.Doubtful = settled(o.GetGeneration(), ready, conditions, managed)

	f.Environment = lifecycle.Environment{Provider: lifecycle.ProviderClusterAPI}
	var notes []string
	defer func() { f.Environment.Note = strings.Join(notes, "; ") }()
	if host := str(o.at("spec", "controlPlaneEndpoint", "host")); host != "" {
		port, is := o.at("spec", "controlPlaneEndpoint", "port").(int64)
		address, err := endpoint(host, port)
		switch {
		case err != nil:
			notes = append(notes, fmt.Sprintf("the endpoint is left out: %v", err))
		case !is && o.at("spec", "controlPlaneEndpoint", "port") != nil:
			notes = append(notes, "the endpoint is left out: its port is not a number")
		default:
			f.Environment.URL = address
		}
	}
	spec := without(o.at("spec"), []string{"paused", "controlPlaneEndpoint", "controlPlaneRef", "infrastructureRef"},
		[]string{"replicas"})
	if managed {
		f.Environment.Version = o.field(&notes, "version", "spec.topology.version")
		f.Environment.Class = o.field(&notes, "class", "spec.topology.classRef.name", "spec.topology.class")
		f.Environment.Pools = o.pools(&notes)
		if m, ok := spec.(map[string]any); ok {
			m["topology"] = without(topology, []string{"version"}, []string{"replicas", "metadata"})
		}
	} else {
		if v.ControlPlane = o.controlPlane(); v.ControlPlane == nil {
			notes = append(notes, "the version is unknown: the object names no control plane that can be read")
		}
	}
	f.Declared = o.declared("cluster1", spec)
	f.Trouble, f.Unsure = clusterTrouble(conditions, ready, conditions[conditionTopology])
}

// clusterConditions returns the conditions of v1beta2, and those of v1beta1.
func (o object) clusterConditions() (conditions, old map[string]condition) {
	if o.GroupVersionKind().Version == "v1beta1" {
		conditions, old = o.conditions("status", "v1beta2", "conditions"), o.conditions("status", "conditions")
		if len(conditions) == 0 {
			conditions = old
		}
		return conditions, old
	}
	return o.conditions("status", "conditions"), o.conditions("status", "deprecated", "v1beta1", "conditions")
}

// settled reports whether all that is declared is in place. Right after an edit everything still looks finished,
// except for the generation of TopologyReconciled; between the upgrades of the control plane and of the workers,
// RollingOut is False for a while.
func settled(generation int64, ready condition, all map[string]condition, topology bool) (settled, doubtful bool) {
	must := map[string]condition{conditionAvailable: ready}
	if topology {
		must[conditionTopology] = all[conditionTopology]
	}
	for _, name := range []string{"ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate"} {
		if c, ok := all[name]; ok {
			must[name] = c
		}
	}
	for _, c := range must {
		current, says := c.current(generation)
		if !current || !c.is(metav1.ConditionTrue) {
			return false, false
		}
		doubtful = doubtful || !says
	}
	for _, name := range []string{conditionRollingOut, conditionScalingUp} {
		if c, ok := all[name]; ok {
			if current, _ := c.current(generation); !current || c.is(metav1.ConditionTrue) {
				return false, false
			}
		}
	}
	return true, doubtful
}

// clusterTrouble reads what is wrong. Available alone is False for a while whenever workers are scaled.
func clusterTrouble(all map[string]condition, ready, topology condition) (map[lifecycle.Incident]*lifecycle.Trouble,
	[]lifecycle.Incident,
) {
	trouble, unsure := map[lifecycle.Incident]*lifecycle.Trouble{}, []lifecycle.Incident(nil)
	controlPlane, probe := all[conditionControlPlane], all[conditionProbe]
	switch {
	case controlPlane.is(metav1.ConditionFalse):
		trouble[lifecycle.EnvironmentOutage] = controlPlane.trouble()
	case probe.is(metav1.ConditionFalse):
		trouble[lifecycle.EnvironmentOutage] = probe.trouble()
	case !controlPlane.is(metav1.ConditionTrue):
		unsure = append(unsure, lifecycle.EnvironmentOutage)
	}
	switch {
	case trouble[lifecycle.EnvironmentOutage] != nil:
		unsure = append(unsure, lifecycle.EnvironmentDegraded) // the outage says it
	case ready.is(metav1.ConditionFalse):
		trouble[lifecycle.EnvironmentDegraded] = ready.trouble()
	case !ready.is(metav1.ConditionTrue):
		unsure = append(unsure, lifecycle.EnvironmentDegraded)
	}
	if !ready.is(metav1.ConditionTrue) {
		why := ready
		if topology.is(metav1.ConditionFalse) {
			why = topology // without its ClusterClass, nothing else is reported
		}
		trouble[lifecycle.EnvironmentNotCreated] = why.trouble()
	}
	return trouble, unsure
}

// pools returns the names of the pools of workers in the topology.
func (o object) pools(notes *[]string) []string {
	var out []string
	for _, list := range []string{"machineDeployments", "machinePools"} {
		for _, m := range o.list("spec", "topology", "workers", list) {
			if name := sanitize.WithoutCredentials(str(m["name"])); name != "" && len(name) <= maxField {
				out = append(out, name)
			}
		}
	}
	if len(out) > maxPools {
		*notes = append(*notes, plural.Of(len(out)-maxPools, "pool is", "pools are")+" left out")
		out = out[:maxPools]
	}
	slices.Sort(out)
	return out
}

// controlPlane names the object that has the version of a cluster without a topology.
func (o object) controlPlane() *lifecycle.ResourceRef {
	ref := lifecycle.ResourceRef{
		APIVersion: o.text("spec.controlPlaneRef.apiVersion", "spec.controlPlaneRef.apiGroup"),
		Kind:       o.text("spec.controlPlaneRef.kind"),
		Namespace:  o.GetNamespace(), Name: o.text("spec.controlPlaneRef.name"),
	}
	if !valid(ref) {
		return nil
	}
	return &ref
}
