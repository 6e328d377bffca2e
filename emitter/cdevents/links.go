// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"strings"
	"unicode"

	"github.com/cdevents/sdk-go/pkg/api"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// kindTrigger is the kind of a link that names no kind, as in the examples of CDEvents links.md.
const kindTrigger = "TRIGGER"

// Limits on what an annotation may add.
const (
	maxLinks     = 16
	maxLinkKind  = 64
	maxContextID = 256
)

// ownLinks connects the event with earlier ones of its own subject, whose ids follow from the ledger (CDEvents
// links.md).
func ownLinks(
	profile v1alpha1.Profile,
	subject v1alpha1.CDEventSubjectSpec,
	links []lifecycle.Link,
) api.EmbeddedLinksArray {
	var all api.EmbeddedLinksArray
	profile.Replay = "" // earlier events were not replays
	for _, l := range links {
		// Both ends use the same profile: an id names the event that this source received, not
		// another source's.
		id := ID(profile, subject, l.Sequence, l.Time)
		switch l.Kind {
		case lifecycle.LinkPath:
			all = append(all, path(id))
		case lifecycle.LinkUndoes:
			all = append(all, relation(lifecycle.LinkUndoes, id))
		}
	}
	return all
}

// annotatedLinks connects the event with those that an annotation names.
func annotatedLinks(t lifecycle.Transition, n *notes) api.EmbeddedLinksArray {
	var all api.EmbeddedLinksArray
	for entry := range strings.SplitSeq(annotation(t, AnnotationLinks), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		kind, id, ok := splitLink(entry)
		if !ok {
			n.add("context.links", "annotation %s: %q left out; write KIND=<context id>", AnnotationLinks, clip(entry))
			continue
		}
		if len(all) == maxLinks {
			n.add("context.links", "annotation %s: links after the first %d left out", AnnotationLinks, maxLinks)
			break
		}
		all = append(all, relation(kind, id))
	}
	return all
}

// splitLink reads "KIND=<context id>" or "<context id>". An id may be any printable string without spaces
// (CDEvents spec.md, id (context)). What somebody typed who means a kind, such as "KIND = id", is refused: as an id,
// the whole would be a link to nothing. One with "=" that is no URI therefore needs a kind before it.
func splitLink(s string) (kind, id string, ok bool) {
	kind, id, found := strings.Cut(s, "=")
	if !found || !isKind(kind) {
		if found && !strings.ContainsAny(kind, ":/?") {
			return "", "", false
		}
		kind, id = kindTrigger, s
	}
	return kind, id, id != "" && len(id) <= maxContextID && printable(id) && !strings.ContainsFunc(id, unicode.IsSpace)
}

func isKind(s string) bool {
	if s == "" || len(s) > maxLinkKind {
		return false
	}
	for _, c := range []byte(s) {
		if !alphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func path(id string) api.EmbeddedLinkWithTags {
	l := api.NewEmbeddedLinkPath()
	l.SetFrom(api.EventReference{ContextId: id})
	l.SetTags(noTags())
	return l
}

func relation(kind, id string) api.EmbeddedLinkWithTags {
	l := api.NewEmbeddedLinkRelation()
	l.SetLinkKind(kind)
	l.SetTarget(api.EventReference{ContextId: id})
	l.SetTags(noTags())
	return l
}

// noTags is an empty object: the SDK would otherwise write null, which the schema forbids.
func noTags() api.Tags { return api.Tags{} }
