// SPDX-License-Identifier: Apache-2.0

package tolerant

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
)

type leaf struct {
	Exact map[string]string `json:"exact,omitempty"`
	All   []leaf            `json:"all,omitempty"`
	Not   *leaf             `json:"not,omitempty"`
}

type object struct {
	Name    string           `json:"name,omitempty"`
	Count   int32            `json:"count,omitempty"`
	Ratio   float64          `json:"ratio,omitempty"`
	Watch   bool             `json:"watch,omitempty"`
	URI     *apis.URL        `json:"uri,omitempty"`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	Filters []leaf           `json:"filters,omitempty"`
}

func TestUnreadablePartsAreDropped(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		kept     string
		problems []string
	}{
		`{"name":"a","filters":[{"exact":{"a":"b"}}]}`:             {`{"name":"a","filters":[{"exact":{"a":"b"}}]}`, nil},
		`{"name":"a","unknown":[1]}`:                               {`{"name":"a"}`, nil},
		`{"name":"a","filters":[{"all":[{"exact":5}]}]}`:           {`{"name":"a","filters":[{"all":[{}]}]}`, []string{"filters[0].all[0].exact must be an object, not this number"}},
		`{"filters":[{"exact":{"a":"b","c":1}},3,{"not":{}}]}`:     {`{"filters":[{"exact":{"a":"b"}},{"not":{}}]}`, []string{"filters[0].exact.c must be a string, not this number", "filters[1] must be an object, not this number"}},
		`{"name":{"secret":"s3cret"},"count":"s3cret","ratio":{}}`: {`{}`, []string{"count must be a whole number of 32 bits, not a string", "name must be a string, not an object", "ratio must be a number, not an object"}},
		`{"count":3000000000,"watch":"yes","name":"a"}`:            {`{"name":"a"}`, []string{"count must be a whole number of 32 bits, not this number", "watch must be true or false, not a string"}},
		`{"uri":"http://me:s3cret@[::1","name":"a"}`:               {`{"name":"a"}`, []string{"uri is not a valid URI: missing ']' in host"}},
		`{"timeout":"soon","filters":"all"}`:                       {`{}`, []string{"filters must be a list, not a string", `timeout cannot be read: time: invalid duration "soon"`}},
		`{"Name":"case","name":"a","uri":5}`:                       {`{"name":"a"}`, []string{"uri must be a string, not this number"}},
	} {
		var got object
		problems, err := Unmarshal([]byte(raw), &got)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		var reported []string
		for _, p := range problems {
			reported = append(reported, p.Error())
		}
		kept, err := json.Marshal(got)
		if err != nil || string(kept) != want.kept || !reflect.DeepEqual(reported, want.problems) {
			t.Errorf("%s: kept %s and reported %q, want %s and %q", raw, kept, reported, want.kept, want.problems)
		}
	}
	for _, raw := range []string{``, `null x`, `[]`, `"a"`, `{"name":`} {
		if problems, err := Unmarshal([]byte(raw), &object{}); err == nil {
			t.Errorf("%s: %v", raw, problems)
		}
	}
}

// The object's author chooses how deep and how wide it is.
func TestHostileObjectIsDecodedInTime(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 5000) + `{"exact":5}` + strings.Repeat("}", 5000)
	wide := make([]string, 20_000)
	for i := range wide {
		wide[i] = fmt.Sprintf(`{"exact":%d}`, i)
	}
	for name, raw := range map[string]string{
		"deep": `{"name":"a","filters":[` + deep + `]}`,
		"wide": `{"name":"a","filters":[` + strings.Join(wide, ",") + `]}`,
	} {
		began := time.Now()
		var got object
		problems, err := Unmarshal([]byte(raw), &got)
		if err != nil || got.Name != "a" || len(problems) == 0 || len(problems) > maxProblems {
			t.Errorf("%s: %+v, %d problems, %v", name, got.Name, len(problems), err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}
