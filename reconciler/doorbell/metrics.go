// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Handler serves /healthz and /metrics, in Prometheus' text format. The library for that would double the memory.
func (d *Doorbell) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n")) // whoever asks has gone away
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(d.metrics(time.Now()))) // whoever asks has gone away
	})
	return mux
}

// metrics are all metrics.
func (d *Doorbell) metrics(now time.Time) string {
	var out strings.Builder
	family := func(name, kind, help string) func(labels string, value float64) {
		name = "cdevents_doorbell_" + name
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		return func(labels string, value float64) { fmt.Fprintf(&out, "%s%s %g\n", name, labels, value) }
	}
	s := d.ringer.state()
	rings := family("rings_total", "counter",
		"Attempts to ring the core, by result. What is refused is given up; failed and unauthorized are repeated.")
	for _, kind := range []resultKind{answered, refused, unauthorized, failed} {
		rings(fmt.Sprintf("{result=%q}", string(kind)), float64(s.results[kind]))
	}
	family("waiting_keys", "gauge", "Keys with changes that the core has not answered.")("", float64(s.waiting))
	family("oldest_unanswered_seconds", "gauge", "Age of the oldest change that the core has not answered, 0 if there is none.")(
		"", secondsSince(s.oldest, now))
	family("core_down", "gauge", "1 while the core answers no ring, and is therefore rung more rarely.")("", number(s.down))
	if !s.lastAnswered.IsZero() {
		family("last_answered_timestamp_seconds", "gauge", "When the core last answered a ring.")(
			"", float64(s.lastAnswered.UnixMilli())/1000)
	}
	family("wakes", "gauge", "CDEventSubjects that want to be looked at at some time.")("", float64(d.wakes.len()))
	for _, m := range []struct {
		name, kind, help string
		value            func(*watcher) float64
	}{
		{"watching", "gauge", "1 while the resource is watched.", func(w *watcher) float64 { return number(w.watching.Load()) }},
		{
			"watch_restarts_total", "counter", "How often a watch ended and was started again, which is normal every few minutes.",
			func(w *watcher) float64 { return float64(w.restarts.Load()) },
		},
		{
			"lists_total", "counter", "How often all objects were listed, because the changes were not available.",
			func(w *watcher) float64 { return float64(w.lists.Load()) },
		},
	} {
		add := family(m.name, m.kind, m.help)
		for _, w := range d.watchers {
			add(fmt.Sprintf("{resource=%q}", w.String()), m.value(w))
		}
	}
	return out.String()
}

func secondsSince(t, now time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t).Seconds()
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
