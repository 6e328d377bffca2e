// SPDX-License-Identifier: Apache-2.0

package promquery

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Answers as the servers write them. One that says in any way that it may lack something fails, and is not unusable:
// the next one may be whole. Remarks on the query alone change nothing.
func TestDegradedAnswers(t *testing.T) {
	t.Parallel()
	const series = `[{"metric":{},"value":[1800000000.123,"5"]}]`
	for name, c := range map[string]struct {
		status int
		body   string
		says   string // why it fails; empty if it counts 5
	}{
		"Prometheus": {200, `{"status":"success","data":{"resultType":"vector","result":` + series + `}}`, ""},
		"Prometheus 3, with a remark on the query": {
			200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"infos":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"requests\" (1:5)"]}`, "",
		},
		"Prometheus, a remote read failed": {
			200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"warnings":["remote_read: remote server http://long-term/read returned http status 503 Service Unavailable"]}`,
			"remote_read",
		},
		"Prometheus, truncated": {200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"warnings":["results truncated due to limit"]}`, "truncated"},
		"Prometheus, histograms left out": {
			200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"warnings":["PromQL warning: encountered a mix of histograms and floats for aggregation (1:5)"],"infos":["PromQL info: ignored histogram"]}`,
			"mix of histograms",
		},
		"Prometheus, too many samples": {422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`, "too many samples"},
		"Prometheus, timeout":          {503, `{"status":"error","errorType":"timeout","error":"query timed out in query execution"}`, "timed out"},
		"Thanos":                       {200, `{"status":"success","data":{"resultType":"vector","result":` + series + `,"analysis":{}}}`, ""},
		"Thanos, a store is away": {
			200, `{"status":"success","data":{"resultType":"vector","result":` + series + `,"analysis":{}},"warnings":["receive series from Addr: 10.0.0.7:10901 MinTime: 1 MaxTime: 2: rpc error: code = Unavailable desc = connection refused"]}`,
			"receive series",
		},
		"Thanos, told to fail": {
			422, `{"status":"error","errorType":"execution","error":"expanding series: proxy Series(): rpc error: code = Aborted desc = fetch series for {} Addr: 10.0.0.7:10901"}`, "fetch series",
		},
		"Mimir":                        {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1800000000.123,"5e+00"]}]},"warnings":null}`, ""},
		"Mimir, blocks are missing":    {500, `{"status":"error","errorType":"internal","error":"failed to fetch some blocks (err-mimir-store-consistency-check-failed)"}`, "err-mimir-store-consistency-check-failed"},
		"Mimir, an overloaded ingress": {429, `{"status":"error","errorType":"too_many_requests","error":"too many outstanding requests"}`, "too many outstanding"},
		"Cortex, zones are away":       {200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"warnings":["query result may contain partial data"]}`, "partial data"},
		"VictoriaMetrics": {
			200, `{"status":"success","isPartial":false,"data":{"resultType":"vector","result":` + series + `},"stats":{"seriesFetched":"1","executionTimeMsec":1}}`, "",
		},
		"VictoriaMetrics, single node": {200, `{"status":"success","data":{"resultType":"vector","result":` + series + `},"stats":{"seriesFetched":"1"}}`, ""},
		"VictoriaMetrics, a node is away": {
			200, `{"status":"success","isPartial":true,"data":{"resultType":"vector","result":` + series + `},"stats":{"seriesFetched":"1","executionTimeMsec":1}}`, "isPartial",
		},
		"VictoriaMetrics, the node with the series is away": {
			200, `{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]},"stats":{"seriesFetched":"0"}}`, "isPartial",
		},
		"VictoriaMetrics, told to fail": {
			503, `{"status":"error","errorType":"503","error":"cannot fetch query results: 1 out of 3 vmstorage nodes at group \"\" were unavailable during the query"}`, "were unavailable",
		},
		"a flag that is no flag": {200, `{"status":"success","isPartial":"yes","data":{"resultType":"vector","result":` + series + `}}`, "is not one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, asked := serve(t, c.status, c.body)
			got, err := count(t, at, "", "sum(a)", time.Now())
			var unusable *UnusableError
			switch {
			case c.says == "" && (err != nil || got != 5):
				t.Errorf("%v, %v", got, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &unusable)):
				t.Errorf("%v, %v, want %q", got, err, c.says)
			}
			// Servers that can either fail or leave something out are told to fail.
			if q := asked.URL.Query(); q.Get("partial_response") != "false" || q.Get("deny_partial_response") != "1" {
				t.Errorf("asked for %s", asked.URL)
			}
		})
	}
}
