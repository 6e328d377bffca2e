// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const chartName = "knative-cdevents"

// chart packages the Helm chart with the images of this release, and pushes it beside them if there is a registry. It
// returns its reference there.
func (r *release) chart(ctx context.Context, built []image) (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.root, "charts", chartName, "values.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading the chart's values: %w", err)
	}
	text, err := resolve(string(raw), built)
	if err != nil {
		return "", fmt.Errorf("the chart's values: %w", err)
	}
	stage, err := os.MkdirTemp("", "release-chart-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the chart: %w", err)
	}
	defer func() { _ = os.RemoveAll(stage) }()
	values := filepath.Join(stage, "values.yaml")
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil { //nolint:gosec // a folder of our own
		return "", fmt.Errorf("writing the chart's values: %w", err)
	}
	env := []string{"VALUES=" + values, "OUT=" + r.out, fmt.Sprint("SOURCE_DATE_EPOCH=", epoch.Unix())}
	if _, err := r.command(ctx, env, "", filepath.Join(r.root, ".ci", "chart"), r.version); err != nil {
		return "", err
	}
	version := strings.TrimPrefix(r.version, "v")
	archive := filepath.Join(r.out, chartName+"-"+version+".tgz")
	if !r.push {
		return "", nil
	}
	return r.pushChart(ctx, archive, version)
}

func (r *release) pushChart(ctx context.Context, archive, version string) (string, error) {
	tag, err := name.NewTag(r.repository + "/charts/" + chartName + ":" + version)
	if err != nil {
		return "", fmt.Errorf("pushing to KO_DOCKER_REPO: %w", err)
	}
	args := []string{"push", archive, "oci://" + r.repository + "/charts"}
	if tag.Scheme() == "http" {
		args = append(args, "--plain-http") // a registry on this machine
	}
	// It writes the archive's time in the zone of this machine.
	if _, err := r.tool(ctx, []string{"TZ=UTC"}, "", "helm", args...); err != nil {
		return "", err
	}
	pushed, err := remote.Head(tag, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("looking for the chart that was pushed: %w", err)
	}
	return tag.Digest(pushed.Digest.String()).String(), nil
}
