// Package credentials finds what sources show to their sinks: the value of an
// Authorization header, a client certificate, or a token for an audience.
//
// Its invariants: nothing is read but what a source names, in the source's own
// namespace, by a right that somebody granted there. A Secret goes only to the
// hosts that it lists itself, for who may write a source need not be one who may
// read the Secret. Nothing is shown where the way to the sink can be overheard.
// No error and nothing that is printed holds a value.
package credentials

import (
	"context"
	"net/url"
	"strings"
	"time"

	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"knative.dev/pkg/network"
)

const (
	// freshness is for how long a Secret is not read again, unless a sink
	// refuses what was in it.
	freshness = time.Minute
	// patience is for how long it is not asked again for what was not to be had.
	patience = 5 * time.Second
	// answerTimeout is how long the API server may take.
	answerTimeout = 10 * time.Second
)

// Keeper reads credentials and keeps them for a short while.
type Keeper struct {
	kube kubernetes.Interface
	// reserved are the audiences that the API server itself accepts.
	reserved []string
	clock    clock.Clock
	secrets  *expiring.Expiring
	tokens   *expiring.Expiring
}

// NewKeeper makes one that makes no tokens for the reserved audiences: with such
// a token, a sink could talk to the API server.
func NewKeeper(kube kubernetes.Interface, reserved ...string) *Keeper {
	return newKeeper(kube, clock.RealClock{}, reserved...)
}

func newKeeper(kube kubernetes.Interface, c clock.Clock, reserved ...string) *Keeper {
	return &Keeper{
		kube: kube, reserved: reserved, clock: c,
		secrets: expiring.NewExpiringWithClock(c), tokens: expiring.NewExpiringWithClock(c),
	}
}

// For returns what to show to the sink at an address. Its errors are of type
// WithheldError, but for those of an API server that does not answer.
func (k *Keeper) For(ctx context.Context, w Want, sink *url.URL) (Shown, error) {
	var shown Shown
	if w.Nothing() {
		return shown, nil
	}
	if err := checkSink(w, sink); err != nil {
		return Shown{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var err error
	if w.Authorization.Name != "" {
		if shown.authorization, err = k.authorization(ctx, w, sink.Hostname()); err != nil {
			return Shown{}, err
		}
	}
	if w.ClientCertificate.Name != "" {
		if shown.certificate, err = k.certificate(ctx, w, sink.Hostname()); err != nil {
			return Shown{}, err
		}
	}
	if w.Audience != "" {
		token, err := k.token(ctx, w)
		if err != nil {
			return Shown{}, err
		}
		shown.authorization = "Bearer " + token
	}
	return shown, nil
}

// Rejected is told that a sink did not accept what was shown: it is read again
// for the next attempt, unless that has happened already.
func (k *Keeper) Rejected(w Want, shown Shown) {
	if w.Audience != "" {
		if kept, ok := k.tokens.Get(w.tokenKey()); ok && "Bearer "+kept.(string) == shown.authorization { //nolint:errcheck // nothing else is kept there
			k.tokens.Delete(w.tokenKey())
		}
	}
	for _, name := range []string{w.Authorization.Name, w.ClientCertificate.Name} {
		if name != "" {
			k.outdated(w, name, shown)
		}
	}
}

// checkSink refuses what would be overheard on the way, or cannot be shown at
// the same time.
func checkSink(w Want, sink *url.URL) error {
	at := sink.Scheme + "://" + sink.Host
	static := w.Authorization.Name != "" || w.ClientCertificate.Name != ""
	switch {
	case w.Authorization.Name != "" && w.Audience != "":
		return wrong("TwoAuthorizations", "spec.auth.authorization is set, and the sink has the audience %q, for which a token is sent; "+
			"a request can have only one Authorization header: remove spec.auth.authorization, or use a sink without an audience", w.Audience)
	case w.Authorization.Name != "" && sink.User != nil:
		return wrong("TwoAuthorizations", "spec.auth.authorization is set, and the URI of the sink at %s also contains a user; "+
			"a request can have only one Authorization header: remove one of them", at)
	case w.Audience != "" && sink.User != nil:
		return wrong("TwoAuthorizations", "The URI of the sink at %s contains a user, and the sink has the audience %q, for which a token is sent; "+
			"a request can have only one Authorization header: remove one of them", at, w.Audience)
	case sink.Scheme == "https":
		return nil
	case static:
		return wrong("SinkNotEncrypted", "The sink is at %s, and the credentials of spec.auth are sent only over https; use an https:// address", at)
	case !inCluster(sink.Hostname()):
		return wrong("SinkNotEncrypted", "The sink is at %s, which is not a name inside the cluster, and a token for its audience %q is sent there only over https; use an https:// address",
			at, w.Audience)
	}
	return nil
}

// inCluster says whether a host is a Service's name. Knative itself sends tokens
// to those without encryption, unless it is told to encrypt.
func inCluster(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc."+network.GetClusterDomainName())
}
