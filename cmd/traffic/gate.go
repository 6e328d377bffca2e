// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// asking configures how long to wait for a gate's answer.
type asking struct {
	every time.Duration
	// settle is how long the gate must report that it cannot measure: the first scrape of a
	// new pod may fail. patience bounds the wait while it does not know.
	settle, patience time.Duration
}

// usual allows for two scrapes of the pods, which are 15 s apart.
var usual = asking{every: 2 * time.Second, settle: 20 * time.Second, patience: 35 * time.Second}

// gateReader reads the gate.
type gateReader func(context.Context) (*v1alpha1.CanaryGate, error)

func (r request) reader(config *rest.Config) (gateReader, error) {
	ours, err := client.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for CanaryGates: %w", err)
	}
	return func(ctx context.Context) (*v1alpha1.CanaryGate, error) {
		gate, err := ours.CanaryGates(r.namespace).Get(ctx, r.gate, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading CanaryGate %s/%s: %w", r.namespace, r.gate, err)
		}
		return gate, nil
	}, nil
}

// measurable returns nil if the gate can measure the Service, or does not know yet, as
// for a Service that is scaled to zero. Otherwise the error says what is missing.
func (a asking) measurable(ctx context.Context, read gateReader) error {
	began, cannot := time.Now(), time.Time{}
	for {
		gate, err := read(ctx)
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		measured := gate.Status.GetCondition(v1alpha1.GateMeasured)
		if wrong := gate.Status.Obstacle(); wrong != nil {
			measured = wrong
		}
		switch {
		case measured.IsTrue():
			return nil
		case measured.IsFalse():
			if cannot.IsZero() {
				cannot = time.Now()
			}
			if time.Since(cannot) >= a.settle {
				return fmt.Errorf("nothing was changed: CanaryGate %s cannot judge this Service: %s: %s", gate.Name,
					measured.Reason, measured.Message)
			}
		default:
			cannot = time.Time{}
			if time.Since(began) >= a.patience {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing was changed: asking CanaryGate %s: %w", gate.Name, ctx.Err())
		case <-time.After(a.every):
		}
	}
}
