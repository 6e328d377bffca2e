// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The keys of a login beside its password, as in the Secrets of Knative's KafkaSink.
const (
	userKey      = "user"
	mechanismKey = "sasl.mechanism"
	caKey        = "ca.crt"
)

// The mechanisms of SASL by which a login is sent.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Login is a user with a password. No format prints it.
type Login struct{ Mechanism, User, Password string }

// Format implements fmt.Formatter.
func (Login) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("(login)")) // the caller of fmt sees the error
}

// loginOf reads a login. Only final line breaks of its values are ignored: a password may begin or end with a space.
func loginOf(secret *corev1.Secret, at v1alpha1.SecretKey) (Login, error) {
	const field = "spec.auth.authorization"
	value := func(key string) string { return strings.TrimRight(string(secret.Data[key]), "\r\n") }
	for _, key := range []string{at.Key, userKey} {
		if value(key) == "" {
			return Login{}, wrong(SecretKeyNotFound, "Secret %s (%s) has no key %q, or it is empty; a login needs the "+
				"user in key %q, and the password in %s.key", at.Name, field, key, userKey, field)
		}
	}
	login := Login{Mechanism: cmp.Or(value(mechanismKey), ScramSHA512), User: value(userKey), Password: value(at.Key)}
	switch login.Mechanism {
	case Plain, ScramSHA256, ScramSHA512:
		return login, nil
	}
	return Login{}, wrong(InvalidAuthorization, "The key %q of Secret %s (%s) is not a mechanism of SASL that the "+
		"controller knows; use %s, %s or %s", mechanismKey, at.Name, field, Plain, ScramSHA256, ScramSHA512)
}
