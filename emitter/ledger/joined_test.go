// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

func TestJoinedStringsAreTheSame(t *testing.T) {
	t.Parallel()
	const uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	for _, spec := range []v1alpha1.CDEventSubjectSpec{
		{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: "cart", UID: uid},
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "Service", UID: uid},
		{},
	} {
		s := rememberedBy([]byte(`{"announced":true}`))
		s.APIVersion, s.Kind, s.Spec, s.Status.LastEvent = v1alpha1.SchemeGroupVersion.String(), "CDEventSubject", spec, "dev.cdevents.service.deployed"
		s.ObjectMeta = metav1.ObjectMeta{Name: Name(spec), Namespace: "knative-cdevents", UID: types.UID("2" + uid[1:]), ResourceVersion: "12"}
		if got := Unpacked(Lean(s)); !reflect.DeepEqual(got, s) {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
}
