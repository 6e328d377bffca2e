// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/eventfilter"
	"knative.dev/eventing/pkg/eventfilter/subscriptionsapi"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
)

// Our filter reads and writes what Eventing's does.
func TestFilterHasTheFieldsOfEventings(t *testing.T) {
	t.Parallel()
	if ours, theirs := reflect.TypeFor[v1alpha1.Filter]().NumField(), reflect.TypeFor[eventingv1.SubscriptionsAPIFilter]().NumField(); ours != theirs {
		t.Errorf("our filter has %d fields, and Eventing's %d", ours, theirs)
	}
	inner := v1alpha1.Filter{Prefix: map[string]string{"type": "dev."}, Suffix: map[string]string{"id": "1"}, CESQL: "TRUE"}
	whole := v1alpha1.Filter{All: []v1alpha1.Filter{inner}, Any: []v1alpha1.Filter{inner}, Not: &inner, Exact: map[string]string{"source": "x"}}
	written, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var theirs eventingv1.SubscriptionsAPIFilter
	strict := json.NewDecoder(bytes.NewReader(written))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(theirs); err != nil || !bytes.Equal(again, written) {
		t.Errorf("Eventing writes\n%s (%v), we write\n%s", again, err, written)
	}
}

// Comparisons decide as those of Eventing, for all attributes of all events.
func TestComparisonsDecideAsEventings(t *testing.T) {
	t.Parallel()
	samples, err := cdevents.Samples(v1alpha1.Profile{
		SpecVersion: cdevents.Version05, Source: "https://cluster.example.com", Extensions: map[string]string{"team": "web"},
	})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, ev := range samples {
		values := map[string]string{
			"specversion": ev.SpecVersion(), "id": ev.ID(), "source": ev.Source(), "type": ev.Type(), "subject": ev.Subject(),
			"datacontenttype": ev.DataContentType(), "dataschema": ev.DataSchema(), "time": "2", "none": "x",
		}
		for name, value := range ev.Extensions() {
			values[name] = fmt.Sprint(value)
		}
		for name, value := range values {
			for _, text := range []string{value, "", "no", value[:min(len(value), 3)], value[max(0, len(value)-3):], value + "x", "x" + value} {
				with := map[string]string{name: text}
				for dialect, f := range map[string]struct {
					ours   v1alpha1.Filter
					theirs func(map[string]string) (eventfilter.Filter, error)
				}{
					"exact":  {v1alpha1.Filter{Exact: with}, subscriptionsapi.NewExactFilter},
					"prefix": {v1alpha1.Filter{Prefix: with}, subscriptionsapi.NewPrefixFilter},
					"suffix": {v1alpha1.Filter{Suffix: with}, subscriptionsapi.NewSuffixFilter},
				} {
					ours, err := Compile([]v1alpha1.Filter{f.ours})
					theirs, refused := f.theirs(with)
					if (err == nil) != (refused == nil) {
						t.Fatalf("%s of %v: %v, and Eventing says %v", dialect, with, err, refused)
					}
					if err != nil {
						continue
					}
					passes, err := ours.Passes(ev)
					if want := theirs.Filter(t.Context(), ev) == eventfilter.PassFilter; err != nil || passes != want {
						t.Errorf("%s of %v: %t (%v), and Eventing says %t", dialect, with, passes, err, want)
					}
					compared++
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d comparisons were made", compared)
	}
}
