// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// again is how long to wait before trying again to read what could not be read.
const again = 5 * time.Second

// probe is how often it is checked that what is watched can still be read: a watch tries in silence to connect again.
const probe = 15 * time.Second

// Live reads Services, sources, gates and the ledger from watches, and everything else as Reader does. The objects that
// it returns are shared: they must not be changed.
type Live struct {
	*Reader
	kept []*kept
}

// kept is a feed, and why it cannot be read.
type kept struct {
	*Feed
	// optional: the feed only adds names, and its absence is no news.
	optional bool
	ailing   chan error

	mu sync.Mutex
	// err: the user may not read the kind, or it is not installed.
	err error
	// trouble: the API server does not answer, or refuses to let the user watch.
	trouble error
}

// Live starts to watch a namespace, or all if it is empty, until ctx is done. It returns when what is there is known.
// What the user may not read is no error here, but an answer of the methods that read it; it is tried again from time
// to time. changed is called for each change of an object, and with nothing if it becomes known that something can or
// cannot be read.
func (r *Reader) Live(ctx context.Context, namespace string, changed func(Change)) (*Live, error) {
	l := &Live{Reader: r}
	for _, f := range []*Feed{r.ServiceFeed(namespace), r.SourceFeed(namespace), r.GateFeed(namespace), r.LedgerFeed()} {
		l.kept = append(l.kept, &kept{Feed: f, ailing: make(chan error, 1)})
	}
	if namespace != "" && namespace != r.System {
		l.kept = append(l.kept, &kept{Feed: r.SourceFeed(r.System), optional: true, ailing: make(chan error, 1)})
	}
	begun := make(chan error, len(l.kept))
	for _, k := range l.kept {
		go k.keep(ctx, changed, begun)
	}
	var first error
	for range l.kept {
		if err := <-begun; err != nil && first == nil && !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrNotInstalled) {
			first = err
		}
	}
	return l, first
}

// Serverless returns nothing: what is shown from watches does not show the mode, and must not wait for the API server.
func (*Live) Serverless(context.Context) (*Serverless, error) { return nil, nil } //nolint:nilnil // see above

// keep runs the feed as soon as it may, and then finds out when trouble is over.
func (k *kept) keep(ctx context.Context, changed func(Change), begun chan<- error) {
	for first := true; ; first = false {
		err := k.Run(ctx, changed, k.ails)
		if k.set(err, nil) && !first {
			changed(Change{})
		}
		if first {
			begun <- err
		}
		if err == nil {
			break
		}
		if !sleep(ctx, again) {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-k.ailing:
			if apierrors.IsForbidden(err) {
				err = explain(err, "watch", k.of, k.namespace)
			}
			if k.set(nil, err) {
				changed(Change{})
			}
		case <-time.After(probe):
			err := k.try(ctx)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if k.set(nil, err) {
				changed(Change{})
			}
		}
		for !k.recovers(ctx, changed) {
		}
	}
}

// ails is called by the watch; it must not block it.
func (k *kept) ails(err error) {
	select {
	case k.ailing <- err:
	default:
	}
}

// recovers asks the API server whether the kind can be read again.
func (k *kept) recovers(ctx context.Context, changed func(Change)) bool {
	if !sleep(ctx, again) {
		return true // nothing asks any more
	}
	err := k.try(ctx)
	k.mu.Lock()
	trouble := k.trouble
	k.mu.Unlock()
	var refused error
	switch {
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrNotInstalled):
		refused, trouble = err, nil
	case err != nil:
		trouble = err
	case len(k.ailing) > 0:
		<-k.ailing // still failing, though it can be listed
	default:
		trouble = nil
	}
	if k.set(refused, trouble) {
		changed(Change{})
	}
	return refused == nil && trouble == nil
}

// set keeps what is wrong, and reports whether that is news.
func (k *kept) set(err, trouble error) (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	news = text(err) != text(k.err) || text(trouble) != text(k.trouble)
	k.err, k.trouble = err, trouble
	return news
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Troubles says what may be out of date because the API server does not answer. It is empty if all is well.
func (l *Live) Troubles() []string {
	var out []string
	for _, k := range l.kept {
		k.mu.Lock()
		if k.trouble != nil && !k.optional {
			out = append(out, k.of.Resource+" may be out of date: "+k.trouble.Error())
		}
		k.mu.Unlock()
	}
	return out
}

// of returns what watches a kind in a namespace, nil if nothing does; the error says why the kind cannot be read.
func (l *Live) of(kind schema.GroupVersionResource, namespace string) (cache.Store, error) {
	for _, k := range l.kept {
		if k.of == kind && (k.namespace == "" || k.namespace == namespace) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.informer.GetStore(), k.err
		}
	}
	return nil, nil //nolint:nilnil // another namespace than that of the watches
}

// all returns the objects of a namespace, or of all, sorted by name.
func all[T any](from cache.Store, namespace string) []T {
	keys := from.ListKeys()
	slices.Sort(keys)
	var out []T
	for _, key := range keys {
		if in, _, _ := strings.Cut(key, "/"); namespace == "" || in == namespace {
			out = append(out, one[T](from, key)...)
		}
	}
	return out
}

// one returns the object with that key, or nothing. The store of an informer never fails.
func one[T any](from cache.Store, key string) []T {
	object, exists, _ := from.GetByKey(key)
	if found, ok := object.(*T); exists && ok {
		return []T{*found}
	}
	return nil
}

// Services returns the Knative Services of a namespace, or of all if it is empty.
func (l *Live) Services(ctx context.Context, namespace string) ([]servingv1.Service, error) {
	from, err := l.of(services, namespace)
	if from == nil || err != nil {
		return read(ctx, namespace, err, l.Reader.Services)
	}
	return all[servingv1.Service](from, namespace), nil
}

// read is for what is not watched.
func read[T any](
	ctx context.Context,
	namespace string,
	err error,
	from func(context.Context, string) ([]T, error),
) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return from(ctx, namespace)
}

// Service returns one Knative Service.
func (l *Live) Service(ctx context.Context, namespace, name string) (*servingv1.Service, error) {
	from, err := l.of(services, namespace)
	switch {
	case err != nil:
		return nil, err
	case from == nil:
		return l.Reader.Service(ctx, namespace, name)
	}
	found := one[servingv1.Service](from, namespace+"/"+name)
	if len(found) == 0 {
		return nil, explainOne(apierrors.NewNotFound(services.GroupResource(), name), services, "Knative Service", namespace,
			name)
	}
	return &found[0], nil
}

// Sources returns the CDEventSources of a namespace, or of all if it is empty.
func (l *Live) Sources(ctx context.Context, namespace string) ([]v1alpha1.CDEventSource, error) {
	from, err := l.of(v1alpha1.SourceResource, namespace)
	if from == nil || err != nil {
		return read(ctx, namespace, err, l.Reader.Sources)
	}
	return all[v1alpha1.CDEventSource](from, namespace), nil
}

// Gates returns the CanaryGates of a namespace, or of all if it is empty.
func (l *Live) Gates(ctx context.Context, namespace string) ([]v1alpha1.CanaryGate, error) {
	from, err := l.of(v1alpha1.GateResource, namespace)
	if from == nil || err != nil {
		return read(ctx, namespace, err, l.Reader.Gates)
	}
	return all[v1alpha1.CanaryGate](from, namespace), nil
}

// Ledger returns the CDEventSubjects about objects in a namespace, or about all objects if it is empty.
func (l *Live) Ledger(_ context.Context, namespace string) ([]v1alpha1.CDEventSubject, error) {
	from, err := l.of(v1alpha1.SubjectResource, l.System)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all[v1alpha1.CDEventSubject](from, l.System), elsewhere(namespace)), nil
}

// Entry returns the CDEventSubject of the object with this kind and UID, or nil if there is none.
func (l *Live) Entry(_ context.Context, kind string, uid types.UID) (*v1alpha1.CDEventSubject, error) {
	from, err := l.of(v1alpha1.SubjectResource, l.System)
	if err != nil {
		return nil, err
	}
	name := v1alpha1.CDEventSubjectSpec{Kind: kind, UID: uid}.ObjectName()
	found := one[v1alpha1.CDEventSubject](from, l.System+"/"+name)
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	return &found[0], nil
}
