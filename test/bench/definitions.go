// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// watcher is the controller under another name, whose reads are in the audit log too.
var watcher = func() contestant {
	c := ours
	c.Name = "knative-cdevents-reading"
	return c
}()

// surrounded is what the controller needs at rest among that many definitions and environments.
type surrounded struct {
	// Others are CustomResourceDefinitions that nobody chose.
	Others, Environments int
	memory
	// Requests are those of Minutes, by verb and resource.
	Requests map[string]int
	Minutes  float64
}

// total is the number of requests in a minute.
func (s surrounded) total() float64 {
	sum := 0
	for _, n := range s.Requests {
		sum += n
	}
	return float64(sum) / s.Minutes
}

// definitions measures the controller with few definitions, with many that it does not watch, and with environments. No Service
// exists, and nothing changes. It has an API server of its own, which the definitions slow down.
func (b *bench) definitions(ctx context.Context, config string) (err error) {
	dir := filepath.Join(b.dir, "definitions")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("creating a folder for logs: %w", err)
	}
	alone := &bench{plan: b.plan}
	if alone.stage, err = newStage(ctx, b.programs, config, dir, b.say); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.close()) }()
	cfg := alone.cp.Config()
	cfg.QPS = -1
	installed, err := apiextensions.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client for definitions: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client for environments: %w", err)
	}
	for _, step := range []struct {
		others, environments int
		prepare              func() error
	}{
		{0, 0, func() error { return nil }},
		{b.plan.Definitions, 0, func() error { return define(ctx, installed, b.plan.Definitions) }},
		{b.plan.Definitions, b.plan.Environments, func() error { return provision(ctx, installed, objects, b.plan.Environments) }},
	} {
		b.say("preparing %d other definitions and %d environments", step.others, step.environments)
		if err := step.prepare(); err != nil {
			return err
		}
		s, err := alone.surrounded(ctx)
		if err != nil {
			return fmt.Errorf("with %d definitions and %d environments: %w", step.others, step.environments, err)
		}
		s.Others, s.Environments = step.others, step.environments
		b.Definitions = append(b.Definitions, s)
		b.say("%s resident, %s at most, %.1f requests/min", mebibytes(s.Resident), mebibytes(s.Peak), s.total())
	}
	return nil
}

// surrounded runs the controller among what exists, as known from before.
func (b *bench) surrounded(ctx context.Context) (s surrounded, err error) {
	if err := errors.Join(b.forget(ctx), rest(ctx, 2*time.Second)); err != nil {
		return s, err
	}
	t := &turn{stage: b.stage, contestant: watcher}
	if err := t.start(ctx); err != nil {
		return s, err
	}
	defer func() { t.process.stop() }()
	if err := rest(ctx, b.plan.Settle); err != nil {
		return s, err
	}
	known, err := b.ours.CDEventSubjects(systemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("reading what the controller knows: %w", err)
	}
	if len(known.Items) == 0 {
		return s, fmt.Errorf("it has not taken its baseline after %v; the log is %s", b.plan.Settle, t.process.log)
	}
	offset, err := b.audit.size()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := rest(ctx, b.plan.RequestsFor); err != nil {
		return s, err
	}
	s.Minutes = time.Since(began).Minutes()
	s.Requests, err = b.audit.requests(offset, watcher.Name)
	if err != nil {
		return s, err
	}
	s.memory, err = memoryOf(t.process.pid())
	return s, errors.Join(err, t.process.alive())
}

// requests counts a user's requests by verb and resource, from an offset on.
func (a audit) requests(from int64, user string) (map[string]int, error) {
	f, err := os.Open(filepath.Clean(a.path))
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log from %d: %w", from, err)
	}
	out, seen := map[string]int{}, map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev struct {
			AuditID, Verb, RequestURI string
			User                      struct{ Username string }
			ObjectRef                 *struct{ Resource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return nil, fmt.Errorf("line %q is not an audit event: %w", lines.Text(), err)
		}
		if ev.User.Username != user || seen[ev.AuditID] {
			continue // a watch has an event when it begins, and one when it ends
		}
		seen[ev.AuditID] = true
		what := "discovery"
		if ev.ObjectRef != nil && ev.ObjectRef.Resource != "" {
			what = ev.ObjectRef.Resource
		}
		out[ev.Verb+" "+what]++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("after %v: %w", out, err)
	}
	return out, nil
}

// applied is as long as the annotation that kubectl writes on a usual definition.
var applied = strings.Repeat("x", 20<<10)

func definition(group, kind string, labels map[string]string) *apiextensionsv1.CustomResourceDefinition {
	preserve, plural := true, strings.ToLower(kind)+"s"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + group, Labels: labels, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": applied},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
}

// define creates definitions that are not chosen, ten in each group.
func define(ctx context.Context, installed apiextensions.Interface, n int) error {
	var all errgroup.Group
	all.SetLimit(8)
	for i := range n {
		all.Go(func() error {
			d := definition(fmt.Sprintf("g%03d.example.com", i/10), fmt.Sprintf("Other%04d", i), nil)
			_, err := installed.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, d, metav1.CreateOptions{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("creating definitions: %w", err)
	}
	return nil
}

// provision creates a definition that is chosen, and that many ready environments of its kind.
func provision(ctx context.Context, installed apiextensions.Interface, objects dynamic.Interface, n int) error {
	d := definition("platform.example.com", "Platform", map[string]string{"knative-cdevents.dev/environment": "true"})
	if _, err := installed.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the definition of environments: %w", err)
	}
	of := objects.Resource(schema.GroupVersionResource{Group: "platform.example.com", Version: "v1", Resource: "platforms"}).Namespace(namespace)
	for end := time.Now().Add(time.Minute); ; {
		_, err := of.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("waiting for the definition of environments: %w", err)
		}
		if err := rest(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	for i := range n {
		_, err := of.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "platform.example.com/v1", "kind": "Platform", "metadata": map[string]any{"name": fmt.Sprintf("p-%04d", i)},
			"spec":   map[string]any{"version": "1.34", "region": "eu-1"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available"}}},
		}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating environments: %w", err)
		}
	}
	return nil
}

func (r report) definitions(p *page) {
	all := r.results.Definitions
	if len(all) == 0 {
		return
	}
	p.head("At rest among CustomResourceDefinitions")
	p.row("other definitions", "environments", "resident", "to none", "requests/min", "by verb and resource")
	p.rule(6)
	for _, s := range all {
		var by []string
		for _, what := range slices.SortedFunc(maps.Keys(s.Requests), func(a, b string) int { return s.Requests[b] - s.Requests[a] }) {
			by = append(by, fmt.Sprintf("%s %.1f", what, float64(s.Requests[what])/s.Minutes))
		}
		p.row(fmt.Sprint(s.Others), fmt.Sprint(s.Environments), mebibytes(s.Resident), ratio(float64(s.Resident), float64(all[0].Resident)),
			fmt.Sprintf("%.1f", s.total()), strings.Join(by, ", "))
	}
	p.line("")
	p.line("%s after the start, over %v, without Services. Each definition has an annotation of 20 KiB, as kubectl writes one.", r.plan.Settle, r.plan.RequestsFor)
}
