// SPDX-License-Identifier: Apache-2.0

// Package report puts together what the commands and the page show: a fleet, the history of one object, the run
// of a gate, and what is wrong.
//
// Its invariant: what the user may not read is left out with a note that says so, and never shown as empty. The
// JSON of its types is what -o json prints: fields are only ever added.
package report

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

// Reads is what reports are made of, as reader.Reader describes it. The objects that it returns are shared and never
// changed.
type Reads interface {
	Services(ctx context.Context, namespace string) ([]servingv1.Service, error)
	Service(ctx context.Context, namespace, name string) (*servingv1.Service, error)
	Revisions(ctx context.Context, namespace, service string) ([]servingv1.Revision, error)
	Sources(ctx context.Context, namespace string) ([]v1alpha1.CDEventSource, error)
	Gates(ctx context.Context, namespace string) ([]v1alpha1.CanaryGate, error)
	Ledger(ctx context.Context, namespace string) ([]v1alpha1.CDEventSubject, error)
	Baselines(ctx context.Context) ([]v1alpha1.CDEventBaseline, error)
	Entry(ctx context.Context, kind string, uid types.UID) (*v1alpha1.CDEventSubject, error)
	Placement(ctx context.Context, service types.UID) (*v1alpha1.ShardPlacement, error)
	FinishedRuns(ctx context.Context, namespace string) ([]v1alpha1.CanaryGateRun, error)
	CustomRun(ctx context.Context, namespace, name string) (*v1alpha1.GateRun, error)
	Serverless(ctx context.Context) (*reader.Serverless, error)
}

// Reporter makes reports.
type Reporter struct {
	Reads
	// Clock is the time, and the namespace of the controller.
	Clock advice.Clock
	// Select, if set, selects Services and sources by their labels. Gates follow their Service.
	Select labels.Selector
	// Since, if set, is from when on events and finished runs are shown.
	Since time.Time
}

// selects reports whether objects are selected by their labels: then what has none is left out.
func (r *Reporter) selects() bool { return r.Select != nil && !r.Select.Empty() }

// selected reports whether an object with these labels is to be shown.
func (r *Reporter) selected(of map[string]string) bool {
	return !r.selects() || r.Select.Matches(labels.Set(of))
}
