// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// expressions returns a change that gives a source so many expressions of the largest length, which
// takes the parser the longest known time.
func expressions(n int) func(*v1alpha1.CDEventSource) {
	return func(s *v1alpha1.CDEventSource) {
		for range n {
			s.Spec.Filters = append(s.Spec.Filters, v1alpha1.Filter{CESQL: strings.Repeat("1=", 1024/2-1) + "1 "})
		}
	}
}

// All sources of a namespace may be written at once, but not again and again.
func TestBudgetOfANamespace(t *testing.T) {
	t.Parallel()
	now := start
	b := NewBudget(systemNamespace)
	b.now = func() time.Time { return now }
	largest, plain := newSource(expressions(4)), newSource()
	if size := route.ExpressionSize(largest.Spec.Filters); size != route.MaxExpressions {
		t.Fatalf("the largest source has %d bytes of expressions", size)
	}
	for i := range route.MaxSources {
		if err := b.Spend(largest); err != nil {
			t.Fatalf("source %d: %v", i, err)
		}
	}
	for range 3 { // a refused one costs nothing
		err := b.Spend(largest)
		if err == nil || !strings.Contains(err.Error(), "spec.filters") || !strings.Contains(err.Error(), "namespace shop") || !strings.Contains(err.Error(), "again in 5s") {
			t.Errorf("%v", err)
		}
	}
	in := func(namespace string) *v1alpha1.CDEventSource {
		s := largest.DeepCopy()
		s.Namespace = namespace
		return s
	}
	for _, s := range []*v1alpha1.CDEventSource{plain, newSource(expressions(64)), in("other"), in(systemNamespace)} {
		if err := b.Spend(s); err != nil {
			t.Errorf("namespace %s, %d filters: %v", s.Namespace, len(s.Spec.Filters), err)
		}
	}
	now = now.Add(4 * time.Second)
	if err := b.Spend(largest); err != nil {
		t.Errorf("four seconds later: %v", err)
	}
	for i := range 2 * maxNamespaces {
		if err := b.Spend(in(fmt.Sprint("ns-", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.byNamespace.Len(); n != maxNamespaces {
		t.Errorf("%d namespaces are kept", n)
	}
}

// A source is refused for its size before anything in it is parsed.
func TestExpressionsAreMeasuredBeforeTheyAreParsed(t *testing.T) {
	t.Parallel()
	nested := newSource(func(s *v1alpha1.CDEventSource) {
		inside := v1alpha1.Filter{Any: []v1alpha1.Filter{{CESQL: strings.Repeat("(", 1023)}, {CESQL: strings.Repeat("(", 1023)}}}
		s.Spec.Filters = []v1alpha1.Filter{{Not: &inside}, {All: []v1alpha1.Filter{inside}}, {CESQL: "not CESQL"}}
	})
	for _, s := range []*v1alpha1.CDEventSource{newSource(expressions(64)), newSource(expressions(5)), nested} {
		err := valid.Check(s, systemNamespace, httptransport.Schemes)
		if err == nil || !strings.Contains(err.Error(), "together they must not have more than 4096") || strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("%v", err)
		}
	}
}

// BenchmarkCheck compares the most expensive source that is parsed with one as people write
// them. Its metric is a ratio, so that it can be compared between machines.
func BenchmarkCheck(b *testing.B) {
	usual := newSource(func(s *v1alpha1.CDEventSource) {
		s.Spec.Filters = []v1alpha1.Filter{{CESQL: "type LIKE 'dev.cdevents.service.%' AND subject LIKE 'service/shop/%'"}}
	})
	took := map[string]time.Duration{}
	for name, s := range map[string]*v1alpha1.CDEventSource{"usual": usual, "largest": newSource(expressions(4)), "refused": newSource(expressions(64))} {
		for range 3 {
			_ = valid.Check(s, systemNamespace, httptransport.Schemes) // fills the parser's caches
		}
		began := time.Now()
		for range b.N {
			_ = valid.Check(s, systemNamespace, httptransport.Schemes) // only the time counts
		}
		took[name] = time.Since(began)
	}
	b.ReportMetric(float64(took["largest"])/float64(took["usual"]), "largest/usual")
	b.ReportMetric(float64(took["refused"])/float64(took["usual"]), "refused/usual")
	b.ReportMetric(took["largest"].Seconds()*1000/float64(b.N), "ms/largest")
}
