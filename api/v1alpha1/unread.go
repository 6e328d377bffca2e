// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	kjson "sigs.k8s.io/json"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// UnmarshalJSON implements json.Unmarshaler. Unread lists the parts that it cannot read, so that
// one bad source does not break a list of sources.
func (s *CDEventSource) UnmarshalJSON(raw []byte) (err error) {
	type plain CDEventSource
	s.Unread, err = tolerant.Unmarshal(raw, (*plain)(s))
	if err == nil && len(s.Spec.Filters) > 0 {
		s.Unread = append(s.Unread, unknownInFilters(raw)...)
	}
	return err //nolint:wrapcheck // it says what was read
}

// maxUnknown and longestPath bound what is reported of fields that no filter has: the author of a source chooses their
// number and their names.
const (
	maxUnknown  = 4
	longestPath = 256
)

// unknownInFilters returns the fields of filters that no filter has. Within all, any and not, the API server neither
// refuses nor drops them, because a schema cannot contain itself. A filter without what was misspelled passes more than
// was meant.
func unknownInFilters(raw []byte) (problems []tolerant.FieldError) {
	var of struct {
		Spec struct {
			Filters []json.RawMessage `json:"filters"`
		} `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &of) != nil {
		return nil // what cannot be read is reported already
	}
	for i, filter := range of.Spec.Filters {
		unknown, err := kjson.UnmarshalStrict(filter, new(Filter), kjson.DisallowUnknownFields)
		if err != nil {
			continue // that, too
		}
		for _, u := range unknown {
			var at kjson.FieldError
			if !errors.As(u, &at) || len(problems) == maxUnknown {
				continue
			}
			const right = "use one of exact, prefix, suffix, all, any, not, cesql"
			path := fmt.Sprintf("spec.filters[%d]", i)
			if full := path + "." + at.FieldPath(); len(full) <= longestPath {
				problems = append(problems, tolerant.FieldError{Path: full, Message: "is not a field of a filter; " + right})
			} else {
				problems = append(problems, tolerant.FieldError{Path: path, Message: "contains a field that no filter has; " + right})
			}
		}
	}
	return problems
}

// UnmarshalJSON implements json.Unmarshaler, as that of a source does.
func (g *CanaryGate) UnmarshalJSON(raw []byte) (err error) {
	type plain CanaryGate
	g.Unread, err = tolerant.Unmarshal(raw, (*plain)(g))
	return err //nolint:wrapcheck // it says what was read
}

// UnmarshalJSON implements json.Unmarshaler, as that of a source does.
func (t *ClusterCanaryGateTemplate) UnmarshalJSON(raw []byte) (err error) {
	type plain ClusterCanaryGateTemplate
	t.Unread, err = tolerant.Unmarshal(raw, (*plain)(t))
	return err //nolint:wrapcheck // it says what was read
}

// UnmarshalJSON implements json.Unmarshaler, as that of a source does.
func (s *CDEventSubject) UnmarshalJSON(raw []byte) (err error) {
	type plain CDEventSubject
	s.Unread, err = tolerant.Unmarshal(raw, (*plain)(s))
	return err //nolint:wrapcheck // it says what was read
}

// unreadable replaces a transition that cannot be rendered. The reader of the journal drops it in
// order, and counts it.
var unreadable = runtime.RawExtension{Raw: []byte(`{"sequence":"unreadable"}`)}

// UnmarshalJSON implements json.Unmarshaler. It does not read an entry in part, apart from its time
// and sequence, which the transition has too.
func (j *JournalEntry) UnmarshalJSON(raw []byte) error {
	type plain JournalEntry
	problems, err := tolerant.Unmarshal(raw, (*plain)(j))
	if err != nil || len(problems) == 0 {
		return err //nolint:wrapcheck // it says what was read
	}
	var at struct {
		Time time.Time `json:"time"`
	}
	if json.Unmarshal(j.Transition.Raw, &at) != nil || at.Time.IsZero() {
		at.Time = time.Unix(0, 0).UTC()
	}
	if j.Time.IsZero() {
		j.Time = metav1.NewMicroTime(at.Time)
	}
	var is struct {
		Sequence int64 `json:"sequence"`
	}
	if j.Sequence == 0 && json.Unmarshal(j.Transition.Raw, &is) == nil {
		j.Sequence = is.Sequence
	}
	if slices.ContainsFunc(
		problems,
		func(p tolerant.FieldError) bool { return p.Path != "time" && p.Path != "sequence" },
	) {
		j.Transition = unreadable
	}
	return nil
}

// UnreadIn returns the first problem within a field, such as "spec.sink", or in a parent of it; nil
// if the field could be read.
func UnreadIn(problems []tolerant.FieldError, field string) *tolerant.FieldError {
	within := func(a, b string) bool {
		rest, ok := strings.CutPrefix(a, b)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for i := range problems {
		if within(problems[i].Path, field) || within(field, problems[i].Path) {
			return &problems[i]
		}
	}
	return nil
}

// unreadFields returns the problems in a spec, for an admission webhook.
func unreadFields(problems []tolerant.FieldError) (errs *apis.FieldError) {
	for _, p := range problems {
		if UnreadIn([]tolerant.FieldError{p}, "spec") != nil {
			errs = errs.Also(&apis.FieldError{Message: "invalid value", Paths: []string{p.Path}, Details: "it " + p.Message})
		}
	}
	return errs
}
