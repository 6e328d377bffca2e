package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/eventfilter"
	"knative.dev/eventing/pkg/eventfilter/subscriptionsapi"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Filters compiles and keeps the filters of sources. They are written by users:
// whatever is in them, evaluating one cannot stop the controller.
type Filters struct {
	mu      sync.Mutex
	bySpecs map[types.UID]compiled
}

type compiled struct {
	generation int64
	filter     eventfilter.Filter
	err        error
}

// NewFilters returns an empty set.
func NewFilters() *Filters { return &Filters{bySpecs: map[types.UID]compiled{}} }

// Passes says whether all filters of a source let an event through.
func (f *Filters) Passes(s *v1alpha1.CDEventSource, ev event.Event) (bool, error) {
	c := f.of(s)
	if c.err != nil {
		return false, c.err
	}
	return evaluate(c.filter, ev)
}

// Forget drops what was compiled for a source that is gone.
func (f *Filters) Forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.bySpecs[uid]; ok && c.filter != nil {
		c.filter.Cleanup()
	}
	delete(f.bySpecs, uid)
}

func (f *Filters) of(s *v1alpha1.CDEventSource) compiled {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.bySpecs[s.UID]; ok && c.generation == s.Generation {
		return c
	}
	c := compiled{generation: s.Generation}
	c.filter, c.err = Compile(s.Spec.Filters)
	f.bySpecs[s.UID] = c
	return c
}

// evaluate survives a filter that panics, as a CESQL expression does which
// gives no boolean.
func evaluate(f eventfilter.Filter, ev event.Event) (pass bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			pass, err = false, fmt.Errorf("spec.filters cannot be evaluated (a CESQL expression must give true or false): %v", p)
		}
	}()
	return f.Filter(context.Background(), ev) != eventfilter.FailFilter, nil
}

// Compile makes one filter of a list, all of which must pass. Eventing's own
// reading skips what it cannot read, and lets everything through then.
func Compile(filters []eventingv1.SubscriptionsAPIFilter) (eventfilter.Filter, error) {
	all := make([]eventfilter.Filter, 0, len(filters))
	for i := range filters {
		one, err := compile(&filters[i])
		if err != nil {
			return nil, fmt.Errorf("spec.filters[%d]: %w", i, err)
		}
		all = append(all, one)
	}
	return subscriptionsapi.NewAllFilter(all...), nil
}

func compile(f *eventingv1.SubscriptionsAPIFilter) (filter eventfilter.Filter, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be read: %v", p)
		}
	}()
	for _, group := range [][]eventingv1.SubscriptionsAPIFilter{f.All, f.Any} {
		for i := range group {
			if _, err := compile(&group[i]); err != nil {
				return nil, err
			}
		}
	}
	if f.Not != nil {
		if _, err := compile(f.Not); err != nil {
			return nil, err
		}
	}
	if filter = subscriptionsapi.MaterializeSubscriptionsAPIFilter(zap.NewNop(), *f); filter == nil {
		return nil, errNotAFilter
	}
	if f.CESQL != "" {
		if _, err := evaluate(filter, probe()); err != nil {
			return nil, err
		}
	}
	return filter, nil
}

var errNotAFilter = errors.New("it is empty or cannot be read; give one of exact, prefix, suffix, any, all, not, cesql")

// probe is an event that an expression is tried on.
func probe() event.Event {
	ev := event.New()
	ev.SetID("probe")
	ev.SetSource("https://example.com")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("service/default/probe")
	return ev
}
