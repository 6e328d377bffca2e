// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// CustomData is what our events add to the vocabulary of CDEvents (spec.md, CDEvents custom data).
// It is an object: the schema forbids an array.
type CustomData struct {
	// Knative is absent if the event is about an environment.
	Knative *Knative `json:"knative,omitempty"`
	// Environment is set if the event is about an environment.
	Environment *Environment `json:"environment,omitempty"`
	// Reason is one of the lifecycle's reasons.
	Reason string `json:"reason,omitempty"`
	// PreviousArtifactID is the package URL of what ran before.
	PreviousArtifactID string `json:"previousArtifactId,omitempty"`
	// Incident holds details of an incident.
	Incident *Incident `json:"incident,omitempty"`
	// Settled says whether the Service's stateful cluster had settled.
	Settled *bool `json:"settled,omitempty"`
	// Cluster holds details of that cluster.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Gate holds details of a verdict.
	Gate *Gate `json:"gate,omitempty"`
	// Merged counts the steps of a gradual rollout that this event stands for.
	Merged int64 `json:"merged,omitempty"`

	// Existing receivers read provenance by these names.
	CommitSHA  string `json:"commitSha,omitempty"`
	Repository string `json:"repository,omitempty"`
	Branch     string `json:"branch,omitempty"`
	PipelineID string `json:"pipelineId,omitempty"`
	Deployer   string `json:"deployer,omitempty"`

	// Notes say what the event lacks, and why.
	Notes []Note `json:"notes,omitempty"`
}

// Knative is the state of the Service after the transition.
type Knative struct {
	Namespace        string    `json:"namespace,omitempty"`
	Name             string    `json:"name"`
	UID              string    `json:"uid"`
	Generation       int64     `json:"generation,omitempty"`
	Revision         *Revision `json:"revision,omitempty"`
	PreviousRevision *Revision `json:"previousRevision,omitempty"`
	// Traffic is the effective split, largest first.
	Traffic         []Share  `json:"traffic,omitempty"`
	PreviousTraffic []Share  `json:"previousTraffic,omitempty"`
	URLs            []string `json:"urls,omitempty"`
}

// Revision of a Service. These types are separate from the ledger's, which may change without
// receivers noticing.
type Revision struct {
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	// Images holds the serving container first, then the sidecars.
	Images []Image `json:"images,omitempty"`
}

// Image of a container, as specified and as resolved.
type Image struct {
	Container string `json:"container,omitempty"`
	Image     string `json:"image,omitempty"`
	Digest    string `json:"digest,omitempty"`
}

// Share of the traffic that a Revision receives.
type Share struct {
	Revision string `json:"revision"`
	Percent  int64  `json:"percent"`
}

func customData(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition, n notes) CustomData {
	d := CustomData{
		Reason:             t.Reason,
		PreviousArtifactID: imagePURL(t.Previous),
		Incident:           incident(t),
		Gate:               gate(t),
		Merged:             t.Merged,
		CommitSHA:          provenance(t, AnnotationCommitSHA, &n),
		Repository:         provenance(t, AnnotationRepository, &n),
		Branch:             provenance(t, AnnotationBranch, &n),
		PipelineID:         provenance(t, AnnotationPipelineID, &n),
		Deployer:           provenance(t, AnnotationDeployer, &n),
	}
	if d.Environment = environmentData(subject, t, &n); d.Environment == nil {
		d.Knative = knative(subject, t)
	}
	d.Cluster, d.Settled = cluster(t, &n)
	times(t, &n)
	d.fit(&n)
	d.Notes = n
	return d
}

func knative(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) *Knative {
	return &Knative{
		Namespace:        subject.Namespace,
		Name:             subject.Name,
		UID:              string(subject.UID),
		Generation:       t.Generation,
		Revision:         revision(t.Revision),
		PreviousRevision: revision(t.Previous),
		Traffic:          shares(t.Traffic),
		PreviousTraffic:  shares(t.PreviousTraffic),
		URLs:             t.URLs,
	}
}

// maxProvenance bounds an annotation; Kubernetes allows 256 KiB.
const maxProvenance = 1024

func provenance(t lifecycle.Transition, name string, n *notes) string {
	v := annotation(t, name)
	if !carriable(v) {
		n.add("customData", "annotation %s left out: it must not exceed %d bytes or hold control characters", name,
			maxProvenance)
		return ""
	}
	return v
}

// times notes which times do not count as the beginning of the lead time. No event carries them.
func times(t lifecycle.Transition, n *notes) {
	for _, name := range []string{dora.AnnotationCommitTime, dora.AnnotationPipelineStarted} {
		v := annotation(t, name)
		if v == "" {
			continue
		}
		if wrong := dora.WrongTime(v, t.Time); wrong != "" {
			n.add("customData", "annotation %s does not count: %q %s", name, clip(v), wrong)
		}
	}
}

// carriable reports whether an event can carry a value that somebody wrote into an object.
func carriable(v string) bool { return len(v) <= maxProvenance && printable(v) }

func revision(r *lifecycle.Revision) *Revision {
	if r == nil {
		return nil
	}
	images := make([]Image, len(r.Images))
	for i, image := range r.Images {
		images[i] = Image(image)
	}
	return &Revision{Name: r.Name, UID: string(r.UID), Generation: r.Generation, Images: images}
}

func shares(all []lifecycle.Share) []Share {
	out := make([]Share, len(all))
	for i, s := range all {
		out[i] = Share(s)
	}
	return out
}
