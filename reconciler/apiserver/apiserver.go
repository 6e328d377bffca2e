// SPDX-License-Identifier: Apache-2.0

// Package apiserver knows where the API server listens, and which audiences it accepts. No source may make the
// controller, with its rights, send requests to it.
package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"
)

// Prefixes is the address of the API server as pods know it.
func Prefixes(config *rest.Config) []netip.Prefix {
	u, err := url.Parse(config.Host)
	if err != nil {
		return nil // then nothing else works either, and says so
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name; in a pod it is an address
	}
	return []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
}

// kubernetesService is the name of the API server's own Service and of its
// EndpointSlice, which the API server keeps itself, in namespace default.
const kubernetesService = "kubernetes"

// Endpoints are the addresses of the API server behind its Service. Other ports there may
// belong to something else.
type Endpoints struct {
	cache.SharedIndexInformer
	current atomic.Pointer[[]netip.AddrPort]
}

// NewEndpoints reads them at once, and follows their changes while its informer runs. If
// they cannot be read, it logs that, and there are none.
func NewEndpoints(ctx context.Context, kube kubernetes.Interface) (*Endpoints, error) {
	e := &Endpoints{}
	err := e.Read(ctx, kube)
	if err != nil {
		logging.FromContext(ctx).Errorw("The addresses of the API server cannot be read, so sources may send events to them; "+
			"grant get, list and watch on EndpointSlice default/kubernetes", "error", err)
	}
	e.SharedIndexInformer = discoveryinformers.NewFilteredEndpointSliceInformer(kube, metav1.NamespaceDefault, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, kubernetesService).String()
		})
	// Nothing follows from its deletion: the API server makes it again.
	_, err = e.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    e.follow,
		UpdateFunc: func(_, obj any) { e.follow(obj) },
	})
	return e, err
}

// Read reads them once. It needs no informer.
func (e *Endpoints) Read(ctx context.Context, kube kubernetes.Interface) error {
	slice, err := kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, kubernetesService,
		metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading EndpointSlice %s/%s: %w", metav1.NamespaceDefault, kubernetesService, err)
	}
	e.follow(slice)
	return nil
}

func (e *Endpoints) follow(obj any) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	var all []netip.AddrPort
	for _, endpoint := range slice.Endpoints {
		for _, address := range endpoint.Addresses {
			ip, err := netip.ParseAddr(address)
			if err != nil {
				continue // a name, in a slice of names; the API server has none
			}
			for _, port := range slice.Ports {
				if port.Port != nil {
					all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(*port.Port))) //nolint:gosec // the API server admits ports only
				}
			}
		}
	}
	e.current.Store(&all)
}

// List returns the latest endpoints, or none before the first read.
func (e *Endpoints) List() []netip.AddrPort {
	if all := e.current.Load(); all != nil {
		return *all
	}
	return nil
}

// Audiences are the audiences of this process's own token. The API server accepts
// these.
func Audiences(config *rest.Config) []string {
	token := config.BearerToken
	if config.BearerTokenFile != "" {
		if content, err := os.ReadFile(config.BearerTokenFile); err == nil {
			token = string(content)
		}
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil // no token of a ServiceAccount, as outside of a cluster
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var several struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(payload, &several) == nil {
		return several.Audiences
	}
	var one struct {
		Audience string `json:"aud"`
	}
	if json.Unmarshal(payload, &one) == nil && one.Audience != "" {
		return []string{one.Audience}
	}
	return nil
}
