// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

func controlPlaneUp(ctx context.Context, say *report.Reporter) error {
	builder, err := askedBuilder(say)
	if err != nil {
		return err
	}
	alone, err := node.NewAlone(say)
	if err != nil {
		return err
	}
	if err := alone.Up(ctx, builder); err != nil {
		return err
	}
	say.Say("the control plane is up; audit log: %s", alone.AuditLog())
	fmt.Println(alone.Kubeconfig())
	return nil
}

func controlPlaneDown(say *report.Reporter, keepData bool) error {
	alone, err := node.NewAlone(say)
	if err != nil {
		return err
	}
	return alone.Down(keepData)
}
