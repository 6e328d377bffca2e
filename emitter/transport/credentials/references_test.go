// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

func TestDeadLetterSinkReceivesNoSecret(t *testing.T) {
	t.Parallel()
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "releases", UID: "u1"}}
	if !OfSink(s).Empty() || !OfDeadLetterSink(s).Empty() {
		t.Error("credentials are wanted without spec.auth")
	}
	s.Spec.Auth = &v1alpha1.Auth{
		Authorization:     &v1alpha1.SecretKey{Name: "hook", Key: "header"},
		ClientCertificate: &v1alpha1.SecretName{Name: "pair"},
	}
	if w := OfSink(s); w != newReferences(withHeader, func(w *References) { w.ClientCertificate.Name = "pair" }) {
		t.Errorf("%+v", w)
	}
	if w := OfDeadLetterSink(s); !w.Empty() {
		t.Errorf("%+v", w)
	}
	s.Status.SinkAudience, s.Status.DeadLetterSinkAudience = ptr.String("a"), ptr.String("b")
	if OfSink(s).Audience != "a" || OfDeadLetterSink(s) != newReferences(withAudience("b")) {
		t.Errorf("%+v, %+v", OfSink(s), OfDeadLetterSink(s))
	}
}
