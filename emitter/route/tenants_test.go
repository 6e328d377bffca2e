// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func overriding(s *v1alpha1.CDEventSource, value string) {
	s.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"pad": value}}
}

// The operator's source comes first, then the oldest sources of the namespace. The others are
// left out, always the same ones, and each is counted.
func TestTooManySourcesInANamespace(t *testing.T) {
	operators := sourceNamed("operators")
	operators.Namespace, operators.Spec.NamespaceSelector = "system", &metav1.LabelSelector{}
	operators.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour))
	all := []*v1alpha1.CDEventSource{operators}
	for i := range 420 {
		s := sourceNamed(fmt.Sprintf("s%03d", i))
		s.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Second))
		s.Spec.Replay = v1alpha1.ReplayCurrent
		overriding(s, strings.Repeat("x", 4000))
		all = append(all, s)
	}
	large := sourceNamed("large") // the oldest
	overriding(large, strings.Repeat("<", 2000))
	going := sourceNamed("going")
	now := metav1.Now()
	going.DeletionTimestamp = &now
	all = append(all, large, going)

	var want []types.UID
	for range 5 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		r := router(nil)
		r.Sources = listed(all)
		refused := map[string]int{}
		got := r.Recipients(subject, ledger.Labels{Namespace: labelled}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
		got = slices.DeleteFunc(got, func(to ledger.Recipient) bool {
			if to.Refused != nil {
				refused[to.Refused.Reason]++
			}
			return to.Refused != nil
		})
		var uids []types.UID
		for i, to := range got {
			if uids = append(uids, to.Source); i > 0 && to.Rank <= got[i-1].Rank {
				t.Errorf("ranks %d and %d", got[i-1].Rank, to.Rank)
			}
		}
		if want == nil {
			want = uids
		}
		if !slices.Equal(uids, want) || uids[0] != operators.UID || uids[1] != "uid-s000" || len(uids) != MaxSources {
			t.Errorf("%d recipients: %v", len(uids), uids)
		}
		// The source that is too large counts towards the limit, the one being deleted does not.
		if refused[ledger.DroppedTooManySources] != 420+1-MaxSources || refused[ledger.DroppedSourceTooLarge] != 1 {
			t.Errorf("refused %v", refused)
		}
		if due := r.Replays(subject, nil, func() ledger.Labels { return ledger.Labels{Namespace: labelled} }); len(due) != MaxSources-1 {
			t.Errorf("replays for %d sources, want %d", len(due), MaxSources-1)
		}
	}
}
