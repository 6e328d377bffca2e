// SPDX-License-Identifier: Apache-2.0

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

// reference is a watch that belongs to no contestant. If it receives a change before the writer gets its response, the
// change was committed by then. It only records lines and times, because decoding takes longer than receiving.
type reference struct {
	stream io.ReadCloser
	ended  sync.WaitGroup
	lines  []line
}

type line struct {
	at   time.Time
	text []byte
}

// watch starts to watch Routes.
func (c *cast) watch(ctx context.Context) (*reference, error) {
	c.probe.mu.Lock()
	from := c.probe.route.ResourceVersion
	c.probe.mu.Unlock()
	stream, err := c.client.ServingV1().RESTClient().Get().Namespace(namespace).Resource("routes").
		Param("watch", "true").Param("resourceVersion", from).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watching Routes: %w", err)
	}
	w := &reference{stream: stream}
	w.ended.Go(func() {
		lines := bufio.NewReader(stream)
		for {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				return // the responses supply what is missing
			}
			w.lines = append(w.lines, line{time.Now(), text})
		}
	})
	return w, nil
}

// end stops watching.
func (w *reference) end() error {
	err := w.stream.Close()
	w.ended.Wait()
	if err != nil {
		return fmt.Errorf("closing the watch of Routes: %w", err)
	}
	return nil
}

// correct replaces commit times by the reference's, where those are earlier.
func (w *reference) correct(commits []commit) error {
	seen := map[change]time.Time{}
	for _, l := range w.lines {
		var ev struct{ Object servingv1.Route }
		if err := json.Unmarshal(l.text, &ev); err != nil {
			return fmt.Errorf("parsing the watch of Routes: %w", err)
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
