// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"strings"

	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// AnnotationPrefix is the prefix of every annotation that events carry.
const AnnotationPrefix = "cdevents.knative-cdevents.dev/"

// The annotations with which a pipeline records where a Service comes from. They may be set on the
// Service or, better, on its template, which copies them to each Revision. The Revision's win.
const (
	// AnnotationCommitSHA becomes customData.commitSha.
	AnnotationCommitSHA = AnnotationPrefix + "commit-sha"
	// AnnotationRepository becomes customData.repository.
	AnnotationRepository = AnnotationPrefix + "repository"
	// AnnotationBranch becomes customData.branch.
	AnnotationBranch = AnnotationPrefix + "branch"
	// AnnotationPipelineID becomes customData.pipelineId.
	AnnotationPipelineID = AnnotationPrefix + "pipeline-id"
	// AnnotationDeployer becomes customData.deployer.
	AnnotationDeployer = AnnotationPrefix + "deployer"
	// AnnotationChainID becomes context.chainId. It must be a UUID.
	AnnotationChainID = AnnotationPrefix + "chain-id"
	// AnnotationLinks become links of type RELATION in context.links:
	// "KIND=<context id>", separated by commas. Without "KIND=" it is a TRIGGER.
	AnnotationLinks = AnnotationPrefix + "links"
	// AnnotationTraceParent becomes the extension traceparent (W3C Trace Context).
	AnnotationTraceParent = AnnotationPrefix + "traceparent"
)

// CarriedAnnotations lists the annotations of a Service and its Revisions that events and DORA's metrics need.
// An observer keeps only these.
func CarriedAnnotations() []string {
	return []string{
		AnnotationBranch,
		AnnotationChainID,
		AnnotationCommitSHA,
		dora.AnnotationCommitTime,
		AnnotationDeployer,
		AnnotationLinks,
		AnnotationPipelineID,
		dora.AnnotationPipelineStarted,
		AnnotationRepository,
		AnnotationTraceParent,
	}
}

// annotation returns the value from the transition's Revision, or else from the Service.
func annotation(t lifecycle.Transition, name string) string {
	return annotationOf(t.Revision, t, name)
}

func annotationOf(r *lifecycle.Revision, t lifecycle.Transition, name string) string {
	if r != nil {
		if v := strings.TrimSpace(r.Annotations[name]); v != "" {
			return v
		}
	}
	return strings.TrimSpace(t.Annotations[name])
}
