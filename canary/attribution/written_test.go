// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// A run that continues across an upgrade reads the previous release's form.
func TestSnapshotOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	key := func(outcome, shard string) mapping.Key {
		return mapping.Key{Figure: mapping.ShardFinished, Entity: "Cart", Outcome: outcome, Shard: shard}
	}
	is := Snapshot{At: time.Unix(1.8e9, 0).UTC(), epoch: "e", revisions: map[types.UID]Tally{}, pods: map[types.UID]raw{
		"p1": {
			Revision: "r1", App: counters{
				Read:   true,
				Values: map[mapping.Key]float64{key("ok", "1"): 7, key("error", "1"): 1},
			},
			Entry: counters{Values: map[mapping.Key]float64{}},
		},
		"p2": {
			Revision: "r2", App: counters{
				Read:   true,
				Values: map[mapping.Key]float64{key("ok", "2"): 9, key("ok", "1"): 3},
			},
			Entry: counters{Values: map[mapping.Key]float64{{Figure: mapping.EntryHTTP, Outcome: "200"}: 4}},
		},
	}}
	content, err := json.Marshal(is)
	if err != nil {
		t.Fatal(err)
	}
	var now Snapshot
	if err := json.Unmarshal(content, &now); err != nil || !reflect.DeepEqual(now, is) {
		t.Errorf("%v\nwrote %+v\nread %+v", err, is, now)
	}
	// The previous form, as stored in an object. Its incarnation may be of another container than the one that counts.
	then := `{"at":"2027-01-15T08:00:00Z","epoch":"e","revisions":{},"pods":{"p1":{"revision":"r1","app":{"read":true,"incarnation":"a"}},"p2":{"revision":"r2","app":{"read":true}}},"values":{
		"p1":{"app":{"[\"shard-finished\",\"Cart\",\"ok\",\"1\",\"0\"]":7,"[\"shard-finished\",\"Cart\",\"error\",\"1\",\"0\"]":1},"entry":{}},
		"p2":{"app":{"[\"shard-finished\",\"Cart\",\"ok\",\"2\",\"0\"]":9,"[\"shard-finished\",\"Cart\",\"ok\",\"1\",\"0\"]":3},"entry":{"[\"entry-http\",\"\",\"200\",\"\",\"0\"]":4}}}}`
	then = strings.NewReplacer("shard-finished", string(mapping.ShardFinished), "entry-http",
		string(mapping.EntryHTTP)).Replace(then)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(then)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	var before Snapshot
	if err := json.Unmarshal([]byte(`"`+base64.StdEncoding.EncodeToString(packed.Bytes())+`"`), &before); err != nil ||
		!reflect.DeepEqual(before, is) {
		t.Errorf("%v\nwrote %+v\nread %+v", err, is, before)
	}
}

func TestColumnsMustMatchTheirKeys(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "b"}
	for _, c := range []column{
		{Steps: []int{1}},
		{Steps: []int{3}, Values: []float64{1}},
		{Steps: []int{0}, Values: []float64{1}},
		{Steps: []int{1, -1}, Values: []float64{1, 2}},
	} {
		if got, err := c.named(keys); err == nil {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
