// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// read is the result of reading a Secret.
type read struct {
	secret *corev1.Secret
	err    error
	// pair is the content of a Secret of type kubernetes.io/tls; unpaired is set if it is invalid.
	pair     *tls.Certificate
	unpaired error
}

// authorization reads the value of an HTTP header, or a login.
func (k *Keeper) authorization(
	ctx context.Context, refs References, all []hosts.Host, rules Rules, into *Values,
) error {
	const field = "spec.auth.authorization"
	r, allowed, err := k.permitted(ctx, refs, field, refs.Authorization.Name, all)
	if err != nil {
		return err
	}
	into.loginHosts = allowed
	if rules.Login {
		into.login, err = loginOf(r.secret, refs.Authorization)
		into.caCerts = string(r.secret.Data[caKey])
		return err
	}
	into.authorization, err = headerOf(r.secret, refs.Authorization)
	return err
}

func headerOf(secret *corev1.Secret, at v1alpha1.SecretKey) (string, error) {
	const field = "spec.auth.authorization"
	raw, ok := secret.Data[at.Key]
	if !ok {
		return "", wrong(SecretKeyNotFound, "Secret %s (%s) has no key %q; add it, or correct %s.key",
			at.Name, field, at.Key, field)
	}
	value := strings.TrimSpace(string(raw))
	if value == "" || !httpguts.ValidHeaderFieldValue(value) {
		return "", wrong(InvalidAuthorization, "The value of key %q in Secret %s (%s) is empty or not a valid value "+
			"of an HTTP header; "+
			"it must be one line, such as a scheme, a space and a token", at.Key, at.Name, field)
	}
	return value, nil
}

// certificate reads a client certificate and its key.
func (k *Keeper) certificate(ctx context.Context, refs References, all []hosts.Host, into *Values) error {
	const field = "spec.auth.clientCertificate"
	name := refs.ClientCertificate.Name
	r, allowed, err := k.permitted(ctx, refs, field, name, all)
	if err != nil {
		return err
	}
	switch {
	case r.secret.Type != corev1.SecretTypeTLS:
		return wrong(InvalidClientCertificate, "Secret %s (%s) is of type %s; it must be of type %s",
			name, field, r.secret.Type, corev1.SecretTypeTLS)
	case r.unpaired != nil:
		return wrong(InvalidClientCertificate, "Secret %s (%s) does not contain a valid pair of %s and %s in PEM: %v",
			name, field, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, r.unpaired)
	case r.pair.Leaf != nil && k.clock.Now().After(r.pair.Leaf.NotAfter):
		return wrong(InvalidClientCertificate, "The certificate in Secret %s (%s) was valid until %s; renew it",
			name, field, r.pair.Leaf.NotAfter.UTC().Format("2006-01-02 15:04 MST"))
	}
	into.certificate, into.certificateHosts = r.pair, allowed
	return nil
}

// permitted reads a Secret, and fails if it may not be sent to one of these hosts. It also returns all hosts that
// it may be sent to.
func (k *Keeper) permitted(
	ctx context.Context, refs References, field, name string, all []hosts.Host,
) (read, hosts.List, error) {
	r := k.secret(ctx, refs.Source.Namespace, name)
	switch {
	case apierrors.IsNotFound(r.err):
		return r, "", wrong(SecretNotFound, "Secret %s (%s.name) does not exist in namespace %s; create it, or "+
			"correct the name", name, field, refs.Source.Namespace)
	case apierrors.IsForbidden(r.err):
		return r, "", wrong(SecretForbidden, "The controller may not read Secret %s in namespace %s (%s); to allow "+
			"it, bind ClusterRole knative-cdevents-sink-secrets "+
			"to the controller's ServiceAccount with a RoleBinding in that namespace", name, refs.Source.Namespace, field)
	case r.err != nil:
		return r, "", fmt.Errorf("reading Secret %s in namespace %s (%s): %w", name, refs.Source.Namespace, field, r.err)
	}
	allowed, err := hosts.Parse(r.secret.Annotations[v1alpha1.SinkHostsAnnotation])
	switch {
	case err != nil:
		return r, "", wrong(SecretNotForSink, "Secret %s (%s) has an annotation %s that is not a list of hosts, so "+
			"the Secret is not sent: %v", name, field, v1alpha1.SinkHostsAnnotation, err)
	case allowed.Empty():
		return r, "", wrong(SecretNotForSink, "Secret %s (%s) does not say where it may be sent; set its annotation "+
			"%s: %q",
			name, field, v1alpha1.SinkHostsAnnotation, join(all))
	}
	for _, host := range all {
		if !allowed.Allows(host) {
			return r, "", wrong(SecretNotForSink, "Secret %s (%s) may not be sent to the sink's host %s; add the host "+
				"to the Secret's annotation %s, or use another sink",
				name, field, host, v1alpha1.SinkHostsAnnotation)
		}
	}
	return r, allowed, nil
}

func join(all []hosts.Host) string {
	names := make([]string, 0, len(all))
	for _, host := range all {
		names = append(names, host.String())
	}
	return strings.Join(names, ",")
}

// secret reads a single Secret, so that no right to list Secrets is needed.
func (k *Keeper) secret(ctx context.Context, namespace, name string) read {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if kept, ok := k.secrets.Get(key); ok {
		return kept.(read) //nolint:errcheck // nothing else is kept there
	}
	var r read
	r.secret, r.err = k.kube.Secret(ctx, namespace, name)
	switch {
	case ctx.Err() != nil && r.err != nil:
		return r // our timeout says nothing about the Secret
	case r.err != nil:
		k.secrets.Set(key, r, patience)
		return r
	}
	if r.secret.Type == corev1.SecretTypeTLS {
		pair, err := tls.X509KeyPair(r.secret.Data[corev1.TLSCertKey], r.secret.Data[corev1.TLSPrivateKeyKey])
		r.pair, r.unpaired = &pair, err
	}
	k.secrets.Set(key, r, freshness)
	return r
}

// outdated drops a cached Secret if it still has the content that a sink rejected.
func (k *Keeper) outdated(w References, name string, values Values) {
	key := types.NamespacedName{Namespace: w.Source.Namespace, Name: name}
	kept, ok := k.secrets.Get(key)
	if !ok {
		return
	}
	r := kept.(read) //nolint:errcheck // nothing else is kept there
	if r.err != nil {
		return
	}
	if r.is(w.Authorization, name, values) || (values.certificate != nil && r.pair == values.certificate) {
		k.secrets.Delete(key)
	}
}

// is says whether a Secret still has an authorization.
func (r read) is(at v1alpha1.SecretKey, name string, values Values) bool {
	if name != at.Name {
		return false
	}
	if values.login != (Login{}) {
		login, err := loginOf(r.secret, at)
		return err == nil && login == values.login
	}
	return strings.TrimSpace(string(r.secret.Data[at.Key])) == values.authorization
}
