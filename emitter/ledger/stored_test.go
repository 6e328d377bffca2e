// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// A transition has the same bytes in the log and in its CDEventSubject, as a real API server stores it. Acknowledgements have a digest of them.
func TestTransitionsAreStoredAsTheyAreLogged(t *testing.T) {
	t.Parallel()
	cp := controlplane.Start(t)
	kube, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "knative-cdevents"}}
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ours, err := client.New(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := ours.CDEventSubjects(system.Name)
	log := ledger.NewLog(api, wal.Options{
		Slots: 4, Leads: func(types.NamespacedName) bool { return true }, Tell: func(*v1alpha1.CDEventSubject) {}, Checkpoints: wal.Checkpoints{Rate: 100},
	})
	log.Start(t.Context())
	l := ledger.New(log, everyone{"a"}, &counts{}, ledger.WithAcks(&acks{}))
	small, large := 1e-7, 1.5e21
	err = l.Journal(t.Context(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Journal(t.Context(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}, Transitions: []lifecycle.Transition{
			{
				Sequence: 1, Time: noon, Type: lifecycle.Judged, Reason: "<b> & \u2028 ü 😀", Revision: &lifecycle.Revision{Name: "cart-00002"},
				Traffic: []lifecycle.Share{{Revision: "cart-00002", Percent: 5}, {Revision: "cart-00001", Percent: 95}},
				Verdict: &lifecycle.Verdict{
					Gate: "g", Verdict: "Fail", Score: 99.5, Coverage: 1, CanaryRequests: 1e20, BaselineRequests: 12345678.9,
					RequiredShare: &small, HandledShare: &large, Reasons: []string{"Harmful"},
				},
			},
			{Sequence: 2, Time: noon.Add(time.Second), Type: lifecycle.Published, URLs: []string{"http://cart.example.com/?a=1&b=2"}},
		}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	logged, err := log.Get(t.Context(), ledger.Name(cart), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := log.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := api.Get(t.Context(), logged.Name, metav1.GetOptions{})
	if err != nil || log.Behind() != 0 || len(stored.Status.Journal) != 2 {
		t.Fatalf("%d transitions are stored: %v", len(stored.Status.Journal), err)
	}
	for i, j := range stored.Status.Journal {
		if in := logged.Status.Journal[i].Transition.Raw; !bytes.Equal(in, j.Transition.Raw) {
			t.Errorf("in the log    %s\nin the object %s", in, j.Transition.Raw)
		}
	}
}
