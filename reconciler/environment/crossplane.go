// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What Crossplane writes on objects.
const (
	labelClaimName       = "crossplane.io/claim-name"
	labelComposite       = "crossplane.io/composite"
	annotationCPPaused   = "crossplane.io/paused"
	conditionSynced      = "Synced"
	reasonPaused         = "ReconcilePaused"
	reasonCreating       = "Creating"
	reasonWaiting        = "Waiting"
	managementAll        = "*"
	managementDelete     = "Delete"
	managementObserve    = "Observe"
	deletionPolicyOrphan = "Orphan"
)

// managedByCrossplane are the fields of a claim or a composite that are not the user's.
var managedByCrossplane = []string{
	"resourceRef", "resourceRefs", "claimRef", "compositionRef", "compositionRevisionRef", "compositionUpdatePolicy",
	"compositeDeletePolicy",
	"environmentConfigRefs", "writeConnectionSecretToRef", "publishConnectionDetailsTo", "crossplane", "deletionPolicy",
	"managementPolicies",
}

// firstReport is how long after its creation an object that was never ready may first say that it is not.
const firstReport = time.Minute

// conditioned reads an object with the condition Ready, as Crossplane and many others write it.
func (o object) conditioned(v *value, composite bool) {
	f := &v.Facts
	labels, conditions := o.GetLabels(), o.conditions("status", "conditions")
	ready, synced := conditions[conditionReady], conditions[conditionSynced]
	_, hasSynced := conditions[conditionSynced]
	crossplane := composite || o.ofCrossplane()
	v.Part = labels[labelClaimName] != "" || o.at("spec", "claimRef") != nil ||
		hasKey(labels, labelTopologyOwned) || labels[labelComposite] != "" && v.Controller.Kind != ""

	f.Ready = ready.is(metav1.ConditionTrue)
	// A composite says Creating whenever it is not ready, and a claim Waiting, even if it was. Nothing else tells the
	// past.
	begins := ready.reason == reasonCreating || ready.reason == reasonWaiting
	f.EverReady = ready.is(metav1.ConditionFalse) &&
		(!begins || !ready.since.IsZero() && ready.since.Sub(v.Created) > firstReport)
	paused := crossplane && (o.GetAnnotations()[annotationCPPaused] == "true" || synced.reason == reasonPaused)
	f.Resting = paused || o.GetDeletionTimestamp() != nil
	current, says := ready.current(o.GetGeneration())
	f.Settled, f.Doubtful = f.Ready && current, !says
	if crossplane || hasSynced {
		current, says := synced.current(o.GetGeneration())
		f.Settled, f.Doubtful = f.Settled && current && synced.is(metav1.ConditionTrue), f.Doubtful || !says
	}
	f.Trouble, f.Unsure = readyTrouble(ready, synced)
	o.places(f, composite)
	if crossplane {
		f.Environment.Provider = lifecycle.ProviderCrossplane
		f.Kept, f.Observed = o.policies()
	}
	switch {
	case composite:
		f.Declared = o.declared("composite1", without(o.at("spec"), managedByCrossplane, nil))
		f.Environment.Class = o.text("spec.crossplane.compositionRef.name", "spec.compositionRef.name")
		f.Resources = o.resources()
		v.Composite = o.compositeOfClaim()
	case !crossplane:
		f.Declared = o.declared("other1", without(o.at("spec"), nil, []string{"replicas"}))
	}
}

// ofCrossplane reports whether an object is a managed resource.
func (o object) ofCrossplane() bool {
	group := o.GroupVersionKind().Group
	return strings.HasSuffix(group, ".crossplane.io") || strings.HasSuffix(group, ".upbound.io") ||
		o.at("spec", "providerConfigRef") != nil
}

// readyTrouble reads what is wrong.
func readyTrouble(ready, synced condition) (map[lifecycle.Incident]*lifecycle.Trouble, []lifecycle.Incident) {
	trouble, unsure := map[lifecycle.Incident]*lifecycle.Trouble{}, []lifecycle.Incident(nil)
	switch {
	case ready.is(metav1.ConditionFalse):
		trouble[lifecycle.EnvironmentOutage] = ready.trouble()
	case !ready.is(metav1.ConditionTrue):
		unsure = append(unsure, lifecycle.EnvironmentOutage)
	}
	switch {
	case synced.is(metav1.ConditionFalse):
		trouble[lifecycle.EnvironmentDegraded] = synced.trouble()
	case synced.status != "" && !synced.is(metav1.ConditionTrue):
		unsure = append(unsure, lifecycle.EnvironmentDegraded)
	}
	if !ready.is(metav1.ConditionTrue) {
		why := ready
		if synced.is(metav1.ConditionFalse) {
			why = synced
		}
		trouble[lifecycle.EnvironmentNotCreated] = why.trouble()
	}
	return trouble, unsure
}

// places reads the version, the region and the endpoint, where providers and teams usually put them.
func (o object) places(f *lifecycle.EnvironmentSnapshot, composite bool) {
	e, notes := &f.Environment, []string(nil)
	defer func() { e.Note = strings.Join(notes, "; ") }()
	if composite {
		e.Version = o.field(&notes, "version", "status.version", "status.kubernetesVersion", "spec.version",
			"spec.kubernetesVersion", "spec.parameters.version", "spec.parameters.kubernetesVersion")
		e.Region = o.field(&notes, "region", "status.region", "spec.region", "spec.location", "spec.parameters.region",
			"spec.parameters.location")
		e.URL = o.url(&notes, "status.endpoint", "status.url", "status.uri", "status.address.url")
		return
	}
	e.Version = o.field(&notes, "version", "status.atProvider.version", "status.atProvider.masterVersion",
		"status.atProvider.currentMasterVersion",
		"status.atProvider.currentKubernetesVersion", "status.atProvider.kubernetesVersion",
		"spec.forProvider.version", "spec.forProvider.kubernetesVersion", "spec.forProvider.minMasterVersion",
		"spec.forProvider.initialClusterVersion", "spec.version")
	e.Region = o.field(&notes, "region", "spec.forProvider.region", "spec.forProvider.location",
		"status.atProvider.location", "spec.region")
	e.URL = o.url(&notes, "status.atProvider.endpoint", "status.atProvider.fqdn", "status.endpoint", "status.address.url")
}

// policies reports whether the environment outlives its object, and whether the provider only observes it. The
// deletion policy counts only beside the default management policies, as in crossplane-runtime.
func (o object) policies() (kept, observed bool) {
	var policies []string
	if all, ok := o.at("spec", "managementPolicies").([]any); ok {
		for _, p := range all {
			policies = append(policies, str(p))
		}
	}
	if len(policies) == 0 || slices.Contains(policies, managementAll) {
		return o.text("spec.deletionPolicy") == deletionPolicyOrphan, false
	}
	return !slices.Contains(policies, managementDelete), slices.Equal(policies, []string{managementObserve})
}

// fate is what becomes of what a managed resource stands for. Other objects, and composites, stand for nothing.
func (o object) fate() lifecycle.Fate {
	if !o.ofCrossplane() || o.at("spec", "forProvider") == nil {
		return lifecycle.FateNone
	}
	switch kept, observed := o.policies(); {
	case observed:
		return lifecycle.FateNone
	case kept:
		return lifecycle.FateOrphaned
	}
	return lifecycle.FateDeleted
}

// composes reports whether an object is a composite for which Crossplane has chosen a Composition.
func (o object) composes() bool {
	return o.text("spec.crossplane.compositionRef.name", "spec.compositionRef.name") != ""
}

// resources are the objects that a composite is made of.
func (o object) resources() []lifecycle.ResourceRef {
	list := o.list("spec", "crossplane", "resourceRefs")
	if len(list) == 0 {
		list = o.list("spec", "resourceRefs")
	}
	var out []lifecycle.ResourceRef
	for _, m := range list {
		ref := lifecycle.ResourceRef{
			APIVersion: str(m["apiVersion"]), Kind: str(m["kind"]), Namespace: str(m["namespace"]),
			Name: str(m["name"]),
		}
		if own := o.GetNamespace(); own != "" {
			ref.Namespace = own // it cannot consist of others', and must not find out whether they exist
		}
		if valid(ref) && len(out) < lifecycle.MaxResources {
			out = append(out, ref)
		}
	}
	return out
}

// compositeOfClaim names the composite that a claim is bound to.
func (o object) compositeOfClaim() *lifecycle.ResourceRef {
	ref := lifecycle.ResourceRef{
		APIVersion: o.text("spec.resourceRef.apiVersion"), Kind: o.text("spec.resourceRef.kind"),
		Name: o.text("spec.resourceRef.name"),
	}
	if !valid(ref) {
		return nil
	}
	return &ref
}

// claim names the claim that a composite is bound to.
func (o object) claim() types.NamespacedName {
	return types.NamespacedName{
		Namespace: str(o.at("spec", "claimRef", "namespace")),
		Name:      str(o.at("spec", "claimRef", "name")),
	}
}

// valid reports whether an object may be read that another one names. Users choose the name: Secrets are never read,
// and a name must not lead elsewhere.
func valid(r lifecycle.ResourceRef) bool {
	for _, s := range []string{r.APIVersion, r.Kind, r.Name} {
		if s == "" || len(s) > maxField || strings.ContainsAny(s, " %?#@") || strings.Contains(s, "..") {
			return false
		}
	}
	if strings.Contains(r.Name, "/") || strings.Contains(r.Namespace, "/") || strings.Count(r.APIVersion, "/") > 1 {
		return false
	}
	return len(r.Namespace) <= maxField && (r.APIVersion != "v1" || r.Kind != "Secret")
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}
