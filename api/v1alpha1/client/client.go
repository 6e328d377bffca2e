// SPDX-License-Identifier: Apache-2.0

// Package client talks to the API server about this project's resources.
//
// It knows only our kinds: it has no caches besides the informers that callers create, no defaults
// and no retries. It sends exactly what a caller writes.
package client

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Sources reads and writes the CDEventSources of one namespace, or of all.
type Sources = gentype.ClientWithList[*v1alpha1.CDEventSource, *v1alpha1.CDEventSourceList]

// Subjects reads and writes the CDEventSubjects of one namespace, or of all. UpdateStatus does not
// work: the kind has no status subresource.
type Subjects = gentype.ClientWithList[*v1alpha1.CDEventSubject, *v1alpha1.CDEventSubjectList]

// Baselines reads and writes the CDEventBaselines of one namespace, or of all. UpdateStatus does not
// work: the kind has no status subresource.
type Baselines = gentype.ClientWithList[*v1alpha1.CDEventBaseline, *v1alpha1.CDEventBaselineList]

// Gates reads and writes the CanaryGates of one namespace, or of all.
type Gates = gentype.ClientWithList[*v1alpha1.CanaryGate, *v1alpha1.CanaryGateList]

// Templates reads and writes the ClusterCanaryGateTemplates.
type Templates = gentype.ClientWithList[*v1alpha1.ClusterCanaryGateTemplate, *v1alpha1.ClusterCanaryGateTemplateList]

// GateRuns reads and writes the CanaryGateRuns of one namespace, or of all.
type GateRuns = gentype.ClientWithList[*v1alpha1.CanaryGateRun, *v1alpha1.CanaryGateRunList]

// Placements reads and writes the ShardPlacements of one namespace, or of all.
type Placements = gentype.ClientWithList[*v1alpha1.ShardPlacement, *v1alpha1.ShardPlacementList]

// Clientset is the client for all kinds of the group.
type Clientset struct {
	rest rest.Interface
}

// New creates a client for the connection that cfg describes; cfg is not changed.
func New(cfg *rest.Config) (*Clientset, error) {
	cfg = rest.CopyConfig(cfg)
	setDefaults(cfg)
	r, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client for %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	return &Clientset{rest: r}, nil
}

// NewForREST creates a client from a REST client that is configured for the group.
func NewForREST(r rest.Interface) *Clientset { return &Clientset{rest: r} }

// CDEventSources returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) CDEventSources(ns string) *Sources {
	return gentype.NewClientWithList(v1alpha1.SourceResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.CDEventSource { return &v1alpha1.CDEventSource{} },
		func() *v1alpha1.CDEventSourceList { return &v1alpha1.CDEventSourceList{} })
}

// CDEventSubjects returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) CDEventSubjects(ns string) *Subjects {
	return gentype.NewClientWithList(v1alpha1.SubjectResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.CDEventSubject { return &v1alpha1.CDEventSubject{} },
		func() *v1alpha1.CDEventSubjectList { return &v1alpha1.CDEventSubjectList{} })
}

// CDEventBaselines returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) CDEventBaselines(ns string) *Baselines {
	return gentype.NewClientWithList(v1alpha1.BaselineResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.CDEventBaseline { return &v1alpha1.CDEventBaseline{} },
		func() *v1alpha1.CDEventBaselineList { return &v1alpha1.CDEventBaselineList{} })
}

// CanaryGates returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) CanaryGates(ns string) *Gates {
	return gentype.NewClientWithList(v1alpha1.GateResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.CanaryGate { return &v1alpha1.CanaryGate{} },
		func() *v1alpha1.CanaryGateList { return &v1alpha1.CanaryGateList{} })
}

// ClusterCanaryGateTemplates returns a client for the cluster: the kind has no namespace.
func (c *Clientset) ClusterCanaryGateTemplates() *Templates {
	return gentype.NewClientWithList(v1alpha1.TemplateResource.Resource, c.rest, parameters, metav1.NamespaceNone,
		func() *v1alpha1.ClusterCanaryGateTemplate { return &v1alpha1.ClusterCanaryGateTemplate{} },
		func() *v1alpha1.ClusterCanaryGateTemplateList { return &v1alpha1.ClusterCanaryGateTemplateList{} })
}

// CanaryGateRuns returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) CanaryGateRuns(ns string) *GateRuns {
	return gentype.NewClientWithList(v1alpha1.GateRunResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.CanaryGateRun { return &v1alpha1.CanaryGateRun{} },
		func() *v1alpha1.CanaryGateRunList { return &v1alpha1.CanaryGateRunList{} })
}

// ShardPlacements returns a client for namespace ns, or for all namespaces if ns is empty.
func (c *Clientset) ShardPlacements(ns string) *Placements {
	return gentype.NewClientWithList(v1alpha1.PlacementResource.Resource, c.rest, parameters, ns,
		func() *v1alpha1.ShardPlacement { return &v1alpha1.ShardPlacement{} },
		func() *v1alpha1.ShardPlacementList { return &v1alpha1.ShardPlacementList{} })
}

// CanaryGateRunNames lists the metadata of the CanaryGateRuns in namespace ns with these labels. Their content may be
// a megabyte each.
func (c *Clientset) CanaryGateRunNames(
	ctx context.Context, ns, selector string,
) ([]metav1.PartialObjectMetadata, error) {
	raw, err := c.rest.Get().Namespace(ns).Resource(v1alpha1.GateRunResource.Resource).Param("labelSelector", selector).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing CanaryGateRuns: %w", err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading a list of CanaryGateRuns: %w", err)
	}
	return list.Items, nil
}

var (
	// Scheme holds the kinds of the group and the request options.
	Scheme     = newScheme()
	codecs     = serializer.NewCodecFactory(Scheme)
	parameters = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(fmt.Sprintf("registering %s: %v", v1alpha1.SchemeGroupVersion, err))
	}
	return s
}

// setDefaults requests JSON whatever the rest of the program uses: custom resources have no
// protobuf encoding.
func setDefaults(cfg *rest.Config) {
	gv := v1alpha1.SchemeGroupVersion
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	cfg.NegotiatedSerializer = codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
}
