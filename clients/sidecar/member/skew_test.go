// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// version is that of a process. What members and the controller say carries no number: each ignores the fields that it
// does not know, and does without those that are optional.
type version int

const (
	present version = iota
	// older does not have the newest optional field, which is the epoch of a reply.
	older
	// newer has further fields in each object.
	newer
)

// versionOf returns the version of the processes of a node. Each member has others of all versions.
func (w *world) versionOf(n *node) version {
	if !w.skewed {
		return present
	}
	return version(n.name[len(n.name)-1] % 3)
}

// sent returns what arrives of a message that a version sends.
func sent[T any](by version, message T) (out T) {
	if by == present {
		return message
	}
	data, err := json.Marshal(message)
	if err == nil {
		data, err = by.rewrite(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// rewrite returns a message in JSON as another version sends it.
func (v version) rewrite(data []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var all any
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	v.change(all)
	return json.Marshal(all)
}

func (v version) change(value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			v.change(one)
		}
	case map[string]any:
		for name, one := range value {
			if name != "shards" && name != "busy" { // their names are those of shards
				v.change(one)
			}
		}
		if v == newer {
			value["future"], value["futures"] = map[string]any{"at": 1}, []any{"a", 2}
		} else {
			delete(value, "epoch")
		}
	}
}

// TestSkew simulates clusters whose members are of three versions, with a newer controller.
func TestSkew(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				w := &world{
					T: t, dir: dir, strict: i%2 > 0, skewed: true, random: rand.New(rand.NewPCG(seed, 1)),
					nodes: map[string]*node{}, goneSince: map[string]time.Time{}, referee: referee{active: map[int]map[string]int{}},
				}
				w.run(10)
				t.Logf("%d requests were handled; %d plans", w.handled, len(w.plans))
				if len(w.overlaps) > 0 || w.handled < 200 {
					t.Errorf("%d requests, and %d overlaps; the first ones: %v", w.handled, len(w.overlaps), w.overlaps[:min(5, len(w.overlaps))])
				}
			})
		})
	}
}

// What is rewritten is what it seems to be.
func TestVersions(t *testing.T) {
	t.Parallel()
	reply := placement.Reply{Granted: true, Epoch: 1795400000123, After: time.Second, Status: &placement.Status{
		Version: 7, Shards: map[string]map[int]int{"Key": {3: 1}}, Busy: map[string][]int{"Key": {4}},
	}}
	if got := sent(older, reply); got.Epoch != 0 || got.After != time.Second {
		t.Errorf("older: %+v", got)
	}
	got := sent(newer, reply)
	if got.Epoch != reply.Epoch || fmt.Sprint(*got.Status) != fmt.Sprint(*reply.Status) {
		t.Errorf("newer: %+v", got)
	}
	text, err := newer.rewrite([]byte(`{"peers":[{"pod":"a"}]}`))
	if want := `{"future":{"at":1},"futures":["a",2],"peers":[{"future":{"at":1},"futures":["a",2],"pod":"a"}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
