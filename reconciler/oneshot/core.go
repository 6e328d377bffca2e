// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

const (
	// patience is how long a request waits for what is due soon. What is due later is left to the next request.
	patience = 2 * time.Second
	// maxLooks bounds how often a request looks.
	maxLooks = 5
	// maxRequest bounds a request, whoever waits for it.
	maxRequest = time.Minute
	// lastWrites bounds the writes after that.
	lastWrites = 10 * time.Second
	// readers is how many objects are read at once.
	readers = 8
)

// Subjects reads and writes the CDEventSubjects. client.Subjects implements it.
type Subjects interface {
	ledger.Client
	List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error)
}

// Settings are those of the operator, as they are now. store.Store implements it.
type Settings interface {
	observer.Settings
	route.Settings
}

// Metrics counts what is written and sent. delivery.Instruments implements it.
type Metrics interface {
	ledger.Metrics
	delivery.Metrics
}

// Measuring is what measures: it is woken if there is something to measure. awake.Waker implements it.
type Measuring interface {
	// Service looks for anything but that the Service declares a stateful cluster, and Stateful knows that it does.
	Service(ctx context.Context, of types.NamespacedName) error
	Stateful(ctx context.Context, of types.NamespacedName) error
	// Object looks at an object of another kind. It is false if nothing of that kind is ever measured.
	Object(ctx context.Context, kind schema.GroupKind, of types.NamespacedName) (is bool, err error)
	// Everything looks for anything but that a Service declares a stateful cluster.
	Everything(ctx context.Context) error
}

// Options are what a Core reads, and where it writes and sends to. Each function asks the API server.
type Options struct {
	Serving   versioned.Interface
	Subjects  Subjects
	Baselines ledger.Baselines
	// Sources lists those of a namespace, or of all.
	Sources func(ctx context.Context, namespace string, opts metav1.ListOptions) (*v1alpha1.CDEventSourceList, error)
	// Settings reads them.
	Settings func(ctx context.Context) (Settings, error)
	// Namespace returns the labels of a namespace, false if there is none.
	Namespace func(ctx context.Context, name string) (labels map[string]string, exists bool, err error)
	// Installed reports whether all of the named CustomResourceDefinitions exist.
	Installed func(ctx context.Context, definitions ...string) (bool, error)
	// Resolve writes the status of a source: the addresses of its sinks, above all. Deliveries is nil if it is not known
	// what is pending; the status then keeps what it has.
	Resolve func(ctx context.Context, s *v1alpha1.CDEventSource, neighbours []*v1alpha1.CDEventSource,
		deliveries source.Deliveries) error
	// Prepare is called before something is sent. It reads what the Transport must know.
	Prepare   func(ctx context.Context) error
	Transport transport.Transport
	Metrics   Metrics
	// Measuring is nil if nothing is measured.
	Measuring Measuring
	// SystemNamespace is the one whose sources may see other namespaces.
	SystemNamespace string

	// Parallel bounds how many Services a sweep visits at once, and how many objects are read, and sinks are sent to, at
	// once for each. With 1, everything happens in the goroutine of the caller.
	Parallel int
	Now      func() time.Time
	// Random spreads retries; nil for math/rand.
	Random func() float64
	// Within is how long a request may take, apart from its last writes; 0 for a minute.
	Within time.Duration
	// Sleep waits, or returns the error of the context if that ends before.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Core is the controller for one request at a time. It is safe for concurrent use.
type Core struct {
	Options
	rings merger
	hung  hung
	// counted is what the last sweep counted; nil before the first.
	counted atomic.Pointer[[]standing]
}

// New returns a Core.
func New(o Options) *Core {
	if o.Parallel == 0 {
		o.Parallel = readers
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Within == 0 {
		o.Within = maxRequest
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return &Core{Options: o}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Outcome is what a request leaves behind.
type Outcome struct {
	// Wake is when the Service must be asked about again, whatever happens until then; zero for never. The
	// WakeAnnotations of its CDEventSubjects say the same.
	Wake time.Time
	// Stateful says that the Service declares a stateful cluster.
	Stateful bool
}

// Process looks at a Service, journals what has happened to it, and sends what is pending about it. A call that comes
// while another one looks at the same Service is answered by one more look, which answers all that came meanwhile.
func (c *Core) Process(ctx context.Context, service types.NamespacedName) (Outcome, error) {
	return c.rings.do(service, func() (Outcome, error) {
		// Others may wait for it, so it does not end with the caller.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Within)
		defer cancel()
		return c.process(ctx, service)
	})
}

// errRestless says that the views of the API server contradict each other for long.
var errRestless = errors.New("what was read does not fit together yet; ask again")

func (c *Core) process(ctx context.Context, service types.NamespacedName) (Outcome, error) {
	for n := 1; ; n++ {
		l, again, err := c.look(ctx, service)
		if err != nil {
			return Outcome{}, fmt.Errorf("looking at Service %s: %w", service, err)
		}
		soon := again > 0 && again <= patience
		switch wait := l.shortest(again); {
		case l.superseded && n < maxLooks:
		case l.superseded:
			return Outcome{}, fmt.Errorf("looking at Service %s: %w", service, errRestless)
		case wait > 0 && wait <= patience && n < maxLooks:
			if err := c.Sleep(ctx, wait); err != nil {
				return Outcome{}, fmt.Errorf("waiting to look at Service %s again: %w", service, err)
			}
		case soon && !l.due():
			return Outcome{}, fmt.Errorf("looking at Service %s: %w", service, errRestless)
		default:
			return Outcome{Wake: l.wake(), Stateful: l.served && l.kind.Declaration(service).Stateful}, nil
		}
	}
}
