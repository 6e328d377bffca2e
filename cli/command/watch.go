// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// watcher prints a line for each change.
type watcher struct {
	*env
	// namespace is empty for all, and service for all of a namespace.
	namespace, service string
	names              func(types.UID) string
	// selects selects Services and sources by their labels; nil for all.
	selects labels.Selector

	mu sync.Mutex
	// selected are the Services that were selected, as NAMESPACE/NAME, if selects is set.
	selected map[string]bool
	// ailing says that the last words were about the API server not answering.
	ailing bool
}

func (e *env) watch() *cobra.Command {
	var s choice
	c := &cobra.Command{
		Use:               "watch [SERVICE]",
		Short:             "Watch Services, and print a line for each event, delivery and verdict",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeServices,
	}
	s.addAll(c)
	s.addSelector(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && (s.all || s.selector != "") {
			return misused("a name and --all-namespaces or --selector do not go together; use -n")
		}
		w := &watcher{env: e}
		var err error
		if w.namespace, err = e.scope(s.all); err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		if s.selector != "" {
			if w.selects, err = labels.Parse(s.selector); err != nil {
				return misused("--selector: %w", err)
			}
		}
		if len(args) == 1 {
			w.service = args[0]
			if err := e.reporter(r).Known(c.Context(), w.namespace, w.service); err != nil {
				return err
			}
		}
		return w.run(c.Context(), r)
	}
	return c
}

// run watches until the context is done.
func (w *watcher) run(ctx context.Context, r *reader.Reader) error {
	sources, err := r.Sources(ctx, w.namespace)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	w.names = w.reporter(r).SourceNames(ctx, w.namespace, sources)
	feeds := []struct {
		of      *reader.Feed
		what    string
		changed func(reader.Change)
	}{
		{r.SourceFeed(w.namespace), "sources", w.sourceChanged},
		{r.GateFeed(w.namespace), "gates", w.gateChanged},
	}
	if w.selects != nil {
		if err := w.choose(ctx, r); err != nil {
			return err
		}
	}
	watched := false
	for _, f := range feeds {
		if err := f.of.Run(ctx, f.changed, w.trouble); err == nil {
			watched = true
		} else if ctx.Err() == nil {
			w.note("note: %s are not watched: %v", f.what, err)
		}
	}
	err = r.LedgerFeed().Run(ctx, w.entryChanged, w.trouble)
	if errors.Is(err, reader.ErrForbidden) {
		w.note("note: only what Services and gates show, not each event: %v", err)
		err = r.ServiceFeed(w.namespace).Run(ctx, w.serviceChanged, w.trouble)
	}
	if ctx.Err() != nil {
		return w.Screen.Err()
	}
	if err != nil && !watched {
		return err
	}
	if err != nil {
		w.note("note: Services are not watched: %v", err)
	}
	where := "namespace " + w.namespace
	if w.namespace == "" {
		where = "all namespaces"
	}
	if w.service != "" {
		where = "Service " + w.service + " in " + where
	}
	w.note("watching %s; Ctrl-C ends", where)
	<-ctx.Done()
	return w.Screen.Err()
}

// choose follows which Services have the labels.
func (w *watcher) choose(ctx context.Context, r *reader.Reader) error {
	services, err := r.Services(ctx, w.namespace)
	if err != nil {
		return err
	}
	note := func(s *servingv1.Service) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if key := s.Namespace + "/" + s.Name; w.selects.Matches(labels.Set(s.Labels)) {
			w.selected[key] = true
		} else {
			delete(w.selected, key)
		}
	}
	w.selected = map[string]bool{}
	for i := range services {
		note(&services[i])
	}
	return r.ServiceFeed(w.namespace).Run(ctx, func(c reader.Change) {
		if s, is := c.New.(*servingv1.Service); is {
			note(s)
		}
	}, w.trouble)
}

// covers reports whether an object is one to tell of. A source or a gate passes the Service that it is about, if
// it is about one.
func (w *watcher) covers(namespace, service string) bool {
	if w.selects != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.selected[namespace+"/"+service] {
			return false
		}
	}
	return (w.namespace == "" || namespace == w.namespace) && (w.service == "" || service == w.service)
}

// say prints one line.
func (w *watcher) say(at, object string, what screen.Cell, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ailing = false
	w.Screen.Printf("%s  %s  %s  %s\n", w.Screen.Paint(screen.Dim, at), w.Screen.Paint(screen.Bold, object),
		w.Screen.Paint(what.Style, what.Text), text)
}

// trouble says once that the API server does not answer.
func (w *watcher) trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ailing {
		w.note("note: the API server does not answer, trying again: %v", err)
	}
	w.ailing = true
}

// nowStamp is the time of what says no time of its own.
func (w *watcher) nowStamp() string { return w.stamp(w.Now()) }
