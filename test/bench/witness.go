package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// witness is a watch that belongs to no contestant. Where it hears of a change before the writer has his answer, the
// change was committed by then. It only takes down what comes and when: to decode takes longer than to be told.
type witness struct {
	stream io.ReadCloser
	ended  sync.WaitGroup
	heard  []line
}

type line struct {
	at   time.Time
	text []byte
}

// watch begins to watch Routes from now on.
func (c *cast) watch(ctx context.Context) (*witness, error) {
	c.probe.mu.Lock()
	from := c.probe.route.ResourceVersion
	c.probe.mu.Unlock()
	stream, err := c.client.ServingV1().RESTClient().Get().Namespace(namespace).Resource("routes").
		Param("watch", "true").Param("resourceVersion", from).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watching Routes: %w", err)
	}
	w := &witness{stream: stream}
	w.ended.Go(func() {
		lines := bufio.NewReader(stream)
		for {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				return // what is not heard is taken from the answers
			}
			w.heard = append(w.heard, line{time.Now(), text})
		}
	})
	return w, nil
}

// end stops watching.
func (w *witness) end() error {
	err := w.stream.Close()
	w.ended.Wait()
	if err != nil {
		return fmt.Errorf("ending the watch of Routes: %w", err)
	}
	return nil
}

// correct moves commits to where the witness heard of them, if that was earlier.
func (w *witness) correct(commits []commit) error {
	seen := map[change]time.Time{}
	for _, l := range w.heard {
		var ev struct{ Object servingv1.Route }
		if err := json.Unmarshal(l.text, &ev); err != nil {
			return fmt.Errorf("reading what a watch of Routes told: %w", err)
		}
		for _, t := range ev.Object.Status.Traffic {
			if t.RevisionName == newer(ev.Object.Name) && t.Percent != nil {
				seen[change{ev.Object.Name, *t.Percent}] = l.at
			}
		}
	}
	for i, c := range commits {
		if at, ok := seen[c.change]; ok && at.Before(c.At) {
			commits[i].At = at
		}
	}
	return nil
}
