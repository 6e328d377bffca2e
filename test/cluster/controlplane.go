package main

import (
	"context"
	"errors"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

func controlPlaneUp(context.Context, *report.Reporter) error { return errors.New("not yet") }
func controlPlaneDown(*report.Reporter, bool) error          { return errors.New("not yet") }
func controlPlaneDir() (string, error)                       { return "", errors.New("not yet") }
