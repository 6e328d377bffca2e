// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// BenchmarkObserveBesideSlots is an entry that another process has changed, while the slots are full, with many sources.
func BenchmarkObserveBesideSlots(b *testing.B) {
	for _, sources := range []int{1, 250} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			s := store.New()
			l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(&store.Acks{}))
			require(b, addTo(l, 0))
			for n := range 64 {
				slot := s.Peek(ledger.Name(service(0))).DeepCopy()
				slot.Name, slot.Spec.Kind, slot.ResourceVersion = fmt.Sprintf("acknowledgements-%02d", n), ledger.AcknowledgementsKind, strconv.Itoa(100+n)
				slot.Status.Acknowledgements = map[types.UID]map[string]string{}
				for i := range 256 {
					source := types.UID(fmt.Sprintf("8a7f4c6e-0f3b-4d51-9a52-%012d", i%sources))
					if slot.Status.Acknowledgements[source] == nil {
						slot.Status.Acknowledgements[source] = map[string]string{}
					}
					slot.Status.Acknowledgements[source][fmt.Sprintf("service-%d-%d", n, i)] = "7 0123456789abcdef"
				}
				l.Observe(slot)
			}
			o := s.Peek(ledger.Name(service(0))).DeepCopy()
			for n := 1000; b.Loop(); n++ {
				o = o.DeepCopy()
				o.ResourceVersion = strconv.Itoa(n)
				l.Observe(o)
			}
		})
	}
}

// BenchmarkGather is a burst that leaves as many entries unfolded as the slots have room for.
func BenchmarkGather(b *testing.B) {
	const services = 12_000
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(nowhere{}), ledger.WithGathering(ledger.Gathering{Slots: 64, Facts: 256}))
	for i := range services {
		require(b, addTo(l, i))
	}
	for b.Loop() {
		for i := range services {
			l.Acknowledge(ledger.Name(service(i)), "a", 1)
		}
		require(b, l.WriteTogether(context.Background(), noon))
	}
}

type nowhere struct{}

func (nowhere) Add(string) {}

// addTo journals the first transition of a Service.
func addTo(l *ledger.Ledger, i int) error {
	return l.Journal(context.Background(), service(i), func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: noon, Type: lifecycle.Upgraded}}}, nil
	})
}

func require(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
