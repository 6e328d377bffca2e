package main

// telemetry is what a gateway counts for one Revision: what the other tools judge.
type telemetry struct {
	now  sample
	kept []sample
}

// sample holds counters since the beginning.
type sample struct {
	at      float64
	total   float64
	failed  float64
	buckets [15]float64
}

// count counts a request that has ended.
func (t *telemetry) count(code string, took float64) {
	t.now.total++
	if code[0] == '5' {
		t.now.failed++
	}
	t.now.buckets[bucketOf(entryBounds, took)]++
}

// keep remembers the counters, as Prometheus does at every scrape.
func (t *telemetry) keep(at float64) {
	if at < 0 {
		return
	}
	t.now.at = at
	t.kept = append(t.kept, t.now)
}
