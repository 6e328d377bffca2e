// SPDX-License-Identifier: Apache-2.0

// Package credentials finds the credentials that sources show to their sinks: the value of
// an Authorization header, a client certificate, or a token for an audience.
//
// Its invariants:
//
//   - It reads only what a source names, in the source's own namespace, with a right that was
//     granted there.
//   - A Secret is sent only to the hosts that it lists itself: the author of a source may not
//     have the right to read the Secret.
//   - Credentials are sent only over TLS; tokens also to Services inside the cluster.
//   - No error, log or other output contains a secret value.
package credentials

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"knative.dev/pkg/network"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

const (
	// freshness is how long a Secret is cached, unless a sink rejects its content.
	freshness = time.Minute
	// patience is how long a failure to read a Secret is cached.
	patience = 5 * time.Second
	// answerTimeout limits a request to the API server.
	answerTimeout = 10 * time.Second
)

// API is what a Keeper asks the API server. clientset.API implements it: what only knows what credentials a source
// names must not depend on the client for all of Kubernetes.
type API interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	CreateServiceAccount(ctx context.Context, account *corev1.ServiceAccount) (*corev1.ServiceAccount, error)
	CreateToken(
		ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest,
	) (*authenticationv1.TokenRequest, error)
}

// Keeper reads credentials and caches them for a short while.
type Keeper struct {
	kube    API
	schemes Schemes
	// reserved are the audiences that the API server itself accepts.
	reserved []string
	clock    clock.Clock
	secrets  *expiring.Expiring
	tokens   *expiring.Expiring
}

// NewKeeper returns a Keeper for sinks whose URIs have these schemes. It requests no tokens for the reserved
// audiences: with such a token, a sink could use the API server.
func NewKeeper(kube API, schemes Schemes, reserved ...string) *Keeper {
	return newKeeper(kube, schemes, clock.RealClock{}, reserved...)
}

func newKeeper(kube API, schemes Schemes, c clock.Clock, reserved ...string) *Keeper {
	return &Keeper{
		kube: kube, schemes: schemes, reserved: reserved, clock: c,
		secrets: expiring.NewExpiringWithClock(c), tokens: expiring.NewExpiringWithClock(c),
	}
}

// For returns the credentials for the sink at a URL. Its errors are of type WithheldError,
// unless the API server does not answer.
func (k *Keeper) For(ctx context.Context, refs References, sink *url.URL) (Values, error) {
	var values Values
	if refs.Empty() {
		return values, nil
	}
	all, err := k.schemes.Hosts(sink)
	if err != nil {
		return Values{}, wrong(InvalidURI, "The sink is at %s://%s, and no credentials are sent there: %v",
			sink.Scheme, sink.Host, err)
	}
	rules := k.schemes.Rules(sink.Scheme)
	if err := checkSink(refs, sink, all, rules); err != nil {
		return Values{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if refs.Authorization.Name != "" {
		if err := k.authorization(ctx, refs, all, rules, &values); err != nil {
			return Values{}, err
		}
	}
	if refs.ClientCertificate.Name != "" {
		if err := k.certificate(ctx, refs, all, &values); err != nil {
			return Values{}, err
		}
	}
	if refs.Audience != "" {
		token, err := k.token(ctx, refs)
		if err != nil {
			return Values{}, err
		}
		values.authorization = "Bearer " + token
	}
	return values, nil
}

// Rejected drops cached credentials that a sink has rejected, so that the next attempt reads
// them again.
func (k *Keeper) Rejected(refs References, values Values) {
	if refs.Audience != "" {
		kept, ok := k.tokens.Get(refs.tokenKey())
		if ok && "Bearer "+kept.(string) == values.authorization { //nolint:errcheck // nothing else is kept there
			k.tokens.Delete(refs.tokenKey())
		}
	}
	for _, name := range []string{refs.Authorization.Name, refs.ClientCertificate.Name} {
		if name != "" {
			k.outdated(refs, name, values)
		}
	}
}

// checkSink rejects credentials that would travel unencrypted, or that exclude each other.
func checkSink(refs References, sink *url.URL, all []hosts.Host, rules Rules) error {
	at := sink.Scheme + "://" + sink.Host
	static := refs.Authorization.Name != "" || refs.ClientCertificate.Name != ""
	switch {
	case refs.Audience != "" && rules.Login:
		return wrong(AudienceNotSupported, "The sink at %s has the audience %q, but no tokens are sent over %s; "+
			"remove the audience, and use spec.auth", at, refs.Audience, sink.Scheme)
	case refs.Authorization.Name != "" && refs.Audience != "":
		return wrong(TwoAuthorizations, "spec.auth.authorization is set, and the sink has the audience %q, for "+
			"which a token is sent; "+
			"a request can have only one Authorization header: remove spec.auth.authorization, or use a sink without an "+
			"audience", refs.Audience)
	case strings.EqualFold(sink.Scheme, rules.Secure):
		return nil
	case static:
		return wrong(SinkNotEncrypted, "The sink is at %s, and the credentials of spec.auth are sent only over %s; "+
			"use an %s:// address",
			at, rules.Secure, rules.Secure)
	case slices.ContainsFunc(all, func(host hosts.Host) bool { return !inCluster(host) }):
		return wrong(SinkNotEncrypted, "The sink is at %s, which is not a name inside the cluster, and a token for "+
			"its audience %q is sent there only over %s; use an %s:// address",
			at, refs.Audience, rules.Secure, rules.Secure)
	}
	return nil
}

// inCluster says whether a host is the name of a Service. Knative itself sends tokens to
// Services unencrypted, unless it is configured to encrypt.
func inCluster(host hosts.Host) bool {
	domain, err := hosts.Of(network.GetClusterDomainName())
	return host.Below("svc") || err == nil && host.Below("svc."+domain.String())
}
