package cdevents

import (
	"strings"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// AnnotationPrefix begins the name of every annotation that events carry.
const AnnotationPrefix = "cdevents.knative-cdevents.dev/"

// The annotations by which a pipeline tells where a Service comes from. They may
// stand on the Service or, better, on its template, from where every Revision
// takes its own: the Revision's win.
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

// CarriedAnnotations lists the annotations of a Service and of its Revisions
// that events need. An observer keeps these and no others.
func CarriedAnnotations() []string {
	return []string{
		AnnotationBranch,
		AnnotationChainID,
		AnnotationCommitSHA,
		AnnotationDeployer,
		AnnotationLinks,
		AnnotationPipelineID,
		AnnotationRepository,
		AnnotationTraceParent,
	}
}

// annotation is the value that the transition's Revision gives or else the
// Service.
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
