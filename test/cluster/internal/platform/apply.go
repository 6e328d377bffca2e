// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/kube"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

const (
	applyPatience  = 4 * time.Minute
	settlePatience = 10 * time.Minute
)

// applyOnce applies manifests, unless the same ones have been applied to this cluster and their Deployments still
// exist.
func (p *Platform) applyOnce(ctx context.Context, name, namespace, manifests string) error {
	marker := filepath.Join(node.Dir, "applied", name)
	key := store.Key(manifests)
	if have, err := os.ReadFile(marker); err == nil && string(have) == key && p.present(ctx, namespace) { //nolint:gosec // in the state folder
		return nil
	}
	step := p.say.Begin("applying "+name, "")
	if err := step.End(Apply(ctx, p.node.Kubectl(), manifests, io.Discard)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(marker), 0o750); err != nil {
		return fmt.Errorf("recording the applied manifests: %w", err)
	}
	return store.PublishFile(marker, []byte(key), 0o600)
}

// forget lets the next applyOnce apply the part again.
func (p *Platform) forget(part Part) error {
	if err := os.Remove(filepath.Join(node.Dir, "applied", string(part))); err != nil {
		return fmt.Errorf("forgetting the applied manifests: %w", err)
	}
	return nil
}

// present reports whether a namespace has Deployments; "" is for parts without any.
func (p *Platform) present(ctx context.Context, namespace string) bool {
	if namespace == "" {
		return true
	}
	client, err := p.node.Client()
	if err != nil {
		return false
	}
	all, err := client.Deployments(ctx, namespace)
	return err == nil && len(all) > 0
}

// Apply applies manifests. Objects whose CRD is in another manifest, or whose webhook is still starting, fail at first,
// so it repeats the whole request.
func Apply(ctx context.Context, kubectl, manifests string, out io.Writer) error {
	deadline := time.Now().Add(applyPatience)
	for {
		output, err := host.Run(ctx, manifests, kubectl, "--kubeconfig", node.Kubeconfig(),
			"apply", "--server-side", "--force-conflicts", "--field-manager=cluster", "-f", "-")
		if err == nil {
			_, err = io.WriteString(out, output)
			return err
		}
		if time.Now().After(deadline) || !passing(err.Error()) {
			return fmt.Errorf("applying manifests: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("applying manifests: %w", ctx.Err())
		case <-time.After(2 * time.Second):
		}
	}
}

// passing reports whether an error of kubectl may be temporary.
func passing(err string) bool {
	for _, sign := range []string{
		"no matches for kind", "resource mapping not found", "failed calling webhook", "could not find the requested resource",
		"connection refused", "no endpoints available", "not found", "the server is currently unable",
	} {
		if strings.Contains(err, sign) {
			return true
		}
	}
	return false
}

// settle waits until all Deployments of a namespace are rolled out.
func (p *Platform) settle(ctx context.Context, namespace string) error {
	client, err := p.node.Client()
	if err != nil {
		return err
	}
	if unsettled, err := waiting(ctx, client, namespace); err == nil && len(unsettled) == 0 {
		return nil
	}
	step := p.say.Begin("waiting for the Deployments of "+namespace, "")
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		unsettled, err := waiting(ctx, client, namespace)
		if err == nil && len(unsettled) == 0 {
			return step.End(nil)
		}
		if err == nil {
			step.Note("%s", strings.Join(unsettled, ", "))
		}
		select {
		case <-ctx.Done():
			return step.End(fmt.Errorf("the Deployments %s of %s did not become available (%w)%s", strings.Join(unsettled, ", "), namespace, ctx.Err(), p.why(context.WithoutCancel(ctx), namespace, client)))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// waiting names the Deployments that are not rolled out.
func waiting(ctx context.Context, client *kube.Client, namespace string) ([]string, error) {
	all, err := client.Deployments(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range all {
		if !d.Settled() {
			names = append(names, d.Metadata.Name)
		}
	}
	if len(all) == 0 {
		return []string{"(none exists yet)"}, nil
	}
	return names, nil
}

// why describes the problems of a namespace's pods, with the end of their logs. The caller's context has expired, so it
// uses a little more time.
func (p *Platform) why(ctx context.Context, namespace string, client *kube.Client) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	pods, err := client.Pods(ctx, namespace)
	if err != nil {
		return fmt.Sprintf("; its pods cannot be listed: %v", err)
	}
	var b strings.Builder
	for _, pod := range pods {
		trouble := pod.Trouble()
		if trouble == "" {
			continue
		}
		fmt.Fprintf(&b, "\n  pod %s: %s", pod.Metadata.Name, trouble)
		log, err := host.Run(ctx, "", p.node.Kubectl(), "--kubeconfig", node.Kubeconfig(),
			"-n", namespace, "logs", pod.Metadata.Name, "--all-containers", "--tail=5")
		if err == nil && strings.TrimSpace(log) != "" {
			fmt.Fprintf(&b, "\n    %s", strings.ReplaceAll(strings.TrimSpace(log), "\n", "\n    "))
		}
	}
	return b.String()
}
