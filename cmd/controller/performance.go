// SPDX-License-Identifier: Apache-2.0

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

// performance exports DORA's metrics of the Services that this process leads for.
func (e *emitting) performance() *dora.Collector {
	return &dora.Collector{Subjects: e.ledger.All, Leads: e.isLeaderFor, Environment: e.environmentOf}
}

// environmentOf returns the environment of a namespace, as events without a setting of their source have it.
func (e *emitting) environmentOf(namespace string) string {
	if obj, ok, err := e.labels.cache.GetByKey(namespace); err == nil && ok {
		if m, isMeta := obj.(*metav1.PartialObjectMetadata); isMeta && m.Labels[route.EnvironmentLabel] != "" {
			return m.Labels[route.EnvironmentLabel]
		}
	}
	return e.settings.Current().Environment.ID
}
