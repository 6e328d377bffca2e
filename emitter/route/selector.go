// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxSelectorText limits the bytes of a label selector's keys and values: it is applied to
// each event of each Service that the source may select.
const maxSelectorText = 16 << 10

// Selector parses a label selector. An absent one selects nothing; one that is invalid or
// too long is an error.
func Selector(of *metav1.LabelSelector) (labels.Selector, error) {
	if n := textOf(of); n > maxSelectorText {
		return nil, fmt.Errorf("the label selector is too long: its keys and values have %d bytes, and may have %d",
			n, maxSelectorText)
	}
	s, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return nil, fmt.Errorf("not a valid label selector: %w", err)
	}
	return s, nil
}

func textOf(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := 0
	for k, v := range s.MatchLabels {
		n += len(k) + len(v)
	}
	for _, r := range s.MatchExpressions {
		n += len(r.Key) + len(r.Operator)
		for _, v := range r.Values {
			n += len(v) + 1 // an empty value costs, too
		}
	}
	return n
}

// choice holds a source's parsed selectors. It is used for each event of each Service, and
// made once per generation.
type choice struct {
	own, namespaces selecting
	// size is the FormSize of the source.
	size int
}

// selecting is a parsed label selector, or the error. An absent one selects everything.
type selecting struct {
	labels.Selector
	err error
}

func newSelecting(of *metav1.LabelSelector) selecting {
	if of == nil {
		return selecting{Selector: labels.Everything()}
	}
	s, err := Selector(of)
	return selecting{s, err}
}

// errLabelsLeftOut says that an object has more labels than are remembered.
var errLabelsLeftOut = errors.New("the labels of the object or of its namespace are too long, and only the " +
	"first by their keys count")

// matches fails if the answer depends on a label that was left out.
func (s selecting) matches(set map[string]string) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	requirements, selectable := s.Requirements()
	if !selectable {
		return false, nil
	}
	unknown := ""
	for _, r := range requirements {
		switch {
		case lifecycle.LabelDropped(set, r.Key()):
			unknown = r.Key()
		case !r.Matches(labels.Set(set)):
			return false, nil
		}
	}
	if unknown != "" {
		return false, fmt.Errorf("%w: whether it has the label %s is not known", errLabelsLeftOut, unknown)
	}
	return true, nil
}

func (r *Router) choice(s *v1alpha1.CDEventSource) *choice {
	return r.choices.of(s, func(s *v1alpha1.CDEventSource) choice {
		return choice{
			own: newSelecting(s.Spec.Selector), namespaces: newSelecting(s.Spec.NamespaceSelector), size: FormSize(s),
		}
	})
}

// Forget frees what is kept for a deleted source.
func (r *Router) Forget(source types.UID) { r.choices.forget(source) }
