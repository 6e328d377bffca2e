// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/kmeta"
	"knative.dev/pkg/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const (
	// lifetime of a token, as Knative's sources request it.
	lifetime = time.Hour
	// beforeExpiry is how long before its expiry a token is replaced, so that it does not
	// expire on its way.
	beforeExpiry = 5 * time.Minute
)

// identityLabel marks the identities of Knative's sources. Knative's own package is not used:
// it trusts any ServiceAccount, takes no context, and depends on cert-manager.
const identityLabel = "eventing.knative.dev/oidc"

type tokenKey struct {
	source   types.UID
	audience string
}

func (w References) tokenKey() tokenKey { return tokenKey{w.UID, w.Audience} }

// owner returns the fields of the source that an owner reference needs.
func (w References) owner() *v1alpha1.CDEventSource {
	return &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.Source.Namespace, Name: w.Source.Name, UID: w.UID,
	}}
}

// token returns a token for the source's audience.
func (k *Keeper) token(ctx context.Context, w References) (string, error) {
	if slices.Contains(k.reserved, w.Audience) {
		return "", wrong(AudienceReserved, "The audience %q is that of the API server, and tokens for it are not "+
			"sent to sinks; use another audience for the sink", w.Audience)
	}
	if kept, ok := k.tokens.Get(w.tokenKey()); ok {
		return kept.(string), nil //nolint:errcheck // nothing else is kept there
	}
	identity, err := k.identity(ctx, w)
	if err != nil {
		return "", err
	}
	seconds := int64(lifetime / time.Second)
	// With the UID, the request fails if another ServiceAccount has taken the name.
	answer, err := k.kube.CreateToken(ctx, identity.Namespace, identity.Name, &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: identity.UID},
		Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{w.Audience}, ExpirationSeconds: &seconds},
	})
	if err != nil {
		return "", denied(err, w, "request tokens for ServiceAccount "+identity.Name)
	}
	k.tokens.Set(w.tokenKey(), answer.Status.Token, answer.Status.ExpirationTimestamp.Sub(k.clock.Now())-beforeExpiry)
	return answer.Status.Token, nil
}

// identity returns the source's ServiceAccount, and creates it at first use. The source
// owns it.
func (k *Keeper) identity(ctx context.Context, w References) (*corev1.ServiceAccount, error) {
	owner := kmeta.NewControllerRef(w.owner())
	owner.BlockOwnerDeletion = ptr.Bool(false) // deleting the source need not wait for it
	wanted := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.Source.Namespace, Name: w.ServiceAccount(), OwnerReferences: []metav1.OwnerReference{*owner},
		Labels:      map[string]string{identityLabel: "enabled"},
		Annotations: map[string]string{"description": "Identity of CDEventSource " + w.Source.Name + " towards its sinks"},
	}}
	found, err := k.kube.ServiceAccount(ctx, wanted.Namespace, wanted.Name)
	if apierrors.IsNotFound(err) {
		found, err = k.kube.CreateServiceAccount(ctx, wanted)
	}
	if err != nil {
		return nil, denied(err, w, "get and create ServiceAccount "+wanted.Name)
	}
	if !metav1.IsControlledBy(found, w.owner()) {
		return nil, wrong(IdentityTaken, "ServiceAccount %s in namespace %s does not belong to this source, "+
			"although it has the name that the source needs; delete it, or give the source another name",
			found.Name, found.Namespace)
	}
	return found, nil
}

// denied explains a missing right; other errors are wrapped.
func denied(err error, w References, to string) error {
	if apierrors.IsForbidden(err) {
		return wrong(IdentityForbidden, "The sink has the audience %q, and the controller may not %s in namespace "+
			"%s; to allow it, bind ClusterRole knative-cdevents-identities "+
			"(config/optional) to the controller's ServiceAccount with a RoleBinding in that namespace",
			w.Audience, to, w.Source.Namespace)
	}
	return fmt.Errorf("requesting a token for audience %q, as ServiceAccount %s in namespace %s: %w",
		w.Audience, w.ServiceAccount(), w.Source.Namespace, err)
}
