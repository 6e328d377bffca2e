// SPDX-License-Identifier: Apache-2.0

// Package traffic reads traffic from the objects of Knative Serving.
package traffic

import (
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Split returns the split that the targets in the status of a Service or Route make.
func Split(targets []servingv1.TrafficTarget) lifecycle.Split {
	shares := make([]lifecycle.Share, 0, len(targets))
	for _, t := range targets {
		if t.Percent != nil {
			shares = append(shares, lifecycle.Share{Revision: t.RevisionName, Percent: *t.Percent})
		}
	}
	return lifecycle.NewSplit(shares)
}
