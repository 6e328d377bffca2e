package delivery

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	sql "github.com/cloudevents/sdk-go/sql/v2"
	cesqlerrors "github.com/cloudevents/sdk-go/sql/v2/errors"
	"github.com/cloudevents/sdk-go/sql/v2/parser"
	"github.com/cloudevents/sdk-go/sql/v2/runtime"
	"github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/equality"
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

// The bounds of a source's filters. They are applied on the way of everybody's
// events, a recursion that goes too deep ends the whole program, and what the
// parser of CESQL takes for parentheses that nobody closes grows with the square
// of their number: two seconds for 4096 of them, a millisecond for these.
const (
	maxFilters    = 64
	maxDepth      = 8
	maxExpression = 1024
	maxNesting    = 32
)

// Compile makes one filter of a list, all of which must pass. Eventing's own
// reading skips what it cannot read, and lets everything through then.
func Compile(filters []eventingv1.SubscriptionsAPIFilter) (eventfilter.Filter, error) {
	left := maxFilters
	for i := range filters {
		if err := check(&filters[i], maxDepth, &left); err != nil {
			return nil, fmt.Errorf("spec.filters[%d]: %w", i, err)
		}
	}
	return subscriptionsapi.NewAllFilter(subscriptionsapi.MaterializeFiltersList(zap.NewNop(), filters)...), nil
}

// check looks at a filter and those inside of it, and makes nothing that would
// have to be cleaned up.
func check(f *eventingv1.SubscriptionsAPIFilter, depth int, left *int) error {
	*left--
	switch {
	case *left < 0:
		return fmt.Errorf("there are more than %d filters, with those inside of others; say the same with fewer", maxFilters)
	case depth == 0:
		return fmt.Errorf("the filters are more than %d deep inside of each other; say the same with fewer levels", maxDepth)
	case len(f.CESQL) > maxExpression:
		return fmt.Errorf("the CESQL expression has %d bytes; it must not have more than %d", len(f.CESQL), maxExpression)
	case nesting(f.CESQL) > maxNesting:
		return fmt.Errorf("the parentheses of the CESQL expression are more than %d deep; say the same with fewer", maxNesting)
	}
	if said := dialects(f); len(said) > 1 {
		return fmt.Errorf("it says %s at once, of which only one would be obeyed; make a filter of each, which all must pass", strings.Join(said, " and "))
	}
	for _, attributes := range []map[string]string{f.Exact, f.Prefix, f.Suffix} {
		for name := range attributes {
			if name != "" && !v1alpha1.IsAttribute(name) {
				return fmt.Errorf("no event has an attribute %q: their names have lower-case letters and digits only", name)
			}
		}
	}
	inside := slices.Concat(f.All, f.Any)
	if f.Not != nil {
		inside = append(inside, *f.Not)
	}
	for i := range inside {
		if err := check(&inside[i], depth-1, left); err != nil {
			return err
		}
	}
	leaf := *f
	leaf.All, leaf.Any, leaf.Not = nil, nil, nil
	if len(inside) > 0 && equality.Semantic.DeepEqual(leaf, eventingv1.SubscriptionsAPIFilter{}) {
		return nil
	}
	return checkLeaf(&leaf)
}

// dialects are the ways in which a filter says what it wants. Eventing obeys the
// first one that it finds, and passes over the others.
func dialects(f *eventingv1.SubscriptionsAPIFilter) []string {
	var out []string
	for _, d := range []struct {
		name string
		said bool
	}{
		{"exact", len(f.Exact) > 0},
		{"prefix", len(f.Prefix) > 0},
		{"suffix", len(f.Suffix) > 0},
		{"all", len(f.All) > 0},
		{"any", len(f.Any) > 0},
		{"not", f.Not != nil},
		{"cesql", f.CESQL != ""},
	} {
		if d.said {
			out = append(out, d.name)
		}
	}
	return out
}

// nesting is how many parentheses are open at the same time, at most.
func nesting(expression string) int {
	deepest, open := 0, 0
	for _, c := range expression {
		switch c {
		case '(':
			open++
			deepest = max(deepest, open)
		case ')':
			open--
		}
	}
	return deepest
}

func checkLeaf(f *eventingv1.SubscriptionsAPIFilter) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be read: %v", p)
		}
	}()
	var expression sql.Expression
	if f.CESQL != "" {
		if expression, err = parse(f.CESQL); err != nil {
			return err
		}
	}
	filter := subscriptionsapi.MaterializeSubscriptionsAPIFilter(zap.NewNop(), *f)
	if filter == nil {
		return errNotAFilter
	}
	if expression == nil {
		return nil
	}
	if _, err = evaluate(filter, probe()); err != nil {
		return err
	}
	return checkFunctions(f.CESQL, expression)
}

// parse reads an expression, or says what is wrong with it. The parser of CESQL panics where it
// finds nothing to name, as at the end of "type LIKE".
func parse(expression string) (e sql.Expression, err error) {
	defer func() {
		if recover() != nil {
			e, err = nil, fmt.Errorf("the CESQL expression %q is cut short, or has something in it that does not belong there", expression)
		}
	}()
	if e, err = parser.Parse(expression); err != nil {
		return nil, fmt.Errorf("reading the CESQL expression: %w", err)
	}
	return e, nil
}

// checkFunctions refuses functions that there are not. An expression with one of
// them fails for every event, and Eventing takes that for an event to be left out.
// Other errors depend on the event.
func checkFunctions(text string, expression sql.Expression) error {
	if _, err := expression.Evaluate(probe()); cesqlerrors.IsMissingFunctionError(err) {
		return fmt.Errorf("the CESQL expression calls a function that CESQL does not have: %w", err)
	}
	// What the probe does not come to, as behind an AND, an event may.
	for _, called := range calls.FindAllStringSubmatch(literals.ReplaceAllString(text, "''"), -1) {
		if name := strings.ToUpper(called[1]); !slices.Contains(operators, name) && !known(name) {
			return fmt.Errorf("the CESQL expression calls %s, a function that CESQL does not have", name)
		}
	}
	return nil
}

var (
	// literals are strings, with their escapes (CESQL specification, section 2.4).
	literals = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`)
	calls    = regexp.MustCompile(`([A-Za-z_]+)\s*\(`)
	// operators may stand before a parenthesis.
	operators = []string{"AND", "OR", "XOR", "NOT", "IN", "LIKE", "EXISTS"}
)

// maxArguments is more than any function of CESQL has to have.
const maxArguments = 4

func known(function string) bool {
	for n := range maxArguments + 1 {
		if runtime.ResolveFunction(function, n) != nil {
			return true
		}
	}
	return false
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
