package delivery

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxSelectorText is how many bytes the keys and values of a label selector may have: it
// is read for each event of each Service that the source may select.
const maxSelectorText = 16 << 10

// Selector reads a label selector; an absent one selects nothing. It fails if the selector
// is none, or too long.
func Selector(of *metav1.LabelSelector) (labels.Selector, error) {
	if n := textOf(of); n > maxSelectorText {
		return nil, fmt.Errorf("too long a label selector: its keys and values have %d bytes, and may have %d", n, maxSelectorText)
	}
	s, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return nil, fmt.Errorf("not a label selector: %w", err)
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
			n += len(v) + 1 // an empty one costs, too
		}
	}
	return n
}
