// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// recipe applies a file of config/recipes, with only the image replaced.
func (s *scene) recipe(name, image string) {
	s.Helper()
	text, err := os.ReadFile(suite.Path("config", "recipes", name+".yaml"))
	s.must(err)
	s.must(suite.Apply(s.Context(), s.ns, strings.ReplaceAll(string(text), "python:3.13-slim", image)))
	s.waitSource(name)
	_, err = suite.Shell(s.Context(), "", "kubectl rollout status deployment/"+name+" -n $NS --timeout=2m", map[string]string{"NS": s.ns})
	s.must(err)
}

// volume is what a cluster with a storage class provides by itself.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  claimRef: {namespace: %[1]s, name: archive}
  hostPath: {path: %[2]s, type: Directory}
`

// TestRecipes applies the recipes for a chat and for an archive, and lets events arrive. The sink stands in for the
// chat.
func TestRecipes(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller, Knative Eventing, and the registry of the cluster made by test/cluster")
	}
	ctx := t.Context()
	// The volume is deleted after the namespace, and its folder after the volume.
	dir, disk := t.TempDir(), ""
	t.Cleanup(func() {
		if disk == "" {
			return
		}
		if err := suite.Unapply(context.WithoutCancel(ctx), kit.Namespace, disk); err != nil {
			t.Error(err)
		}
	})
	s := newScene(t)
	image, err := suite.PythonImage(ctx)
	s.must(err)
	s.must(suite.Apply(ctx, s.ns, "apiVersion: v1\nkind: Secret\nmetadata: {name: chat}\nstringData: {url: \"http://sink."+s.ns+".svc.cluster.local/hooks/secret\"}\n"))
	s.recipe("chat", image)
	s.must(os.Chmod(dir, 0o777)) // the pod runs as nobody
	for up := filepath.Dir(dir); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		s.must(os.Chmod(up, 0o755))
	}
	disk = fmt.Sprintf(volume, s.ns, dir)
	s.must(suite.Apply(ctx, s.ns, disk))
	s.recipe("archive", image)
	eventing := schema.GroupVersion{Group: "eventing.knative.dev", Version: "v1"}
	s.must(suite.WaitReady(ctx, eventing.WithResource("triggers"), s.ns, "archive"))

	s.deploy("shop")
	s.must(suite.Services.Update(ctx, s.ns, "shop", func(svc *servingv1.Service) {
		kit.SetVersion(svc, "two")
		kit.SetTraffic(svc, kit.Share{Revision: kit.RevisionName("shop", 1), Percent: 50}, kit.Share{Percent: 50})
	}))
	_, err = suite.Services.Wait(ctx, s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	s.must(suite.Services.Update(ctx, s.ns, "shop", func(svc *servingv1.Service) {
		kit.SetTraffic(svc, kit.Share{Revision: kit.RevisionName("shop", 1), Percent: 100})
	}))

	told := s.ns + "/shop was rolled back from shop-00002 to shop-00001 in default"
	s.must(kit.Wait(ctx, patience, "the chat to be told", func(ctx context.Context) error {
		all, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		var texts []string
		for _, e := range all {
			var m struct{ Text string }
			if err := json.Unmarshal(e.Body, &m); err != nil || e.Path != "/hooks/secret" {
				return fmt.Errorf("the chat got %s", e)
			}
			texts = append(texts, m.Text)
		}
		if !slices.Equal(texts, []string{told}) {
			return kit.NotYet("it was told %q", texts)
		}
		return nil
	}))
	t.Logf("the chat was told: %s", told)

	want := slices.Sorted(slices.Values(slices.Concat(birth, []string{revisionReady, shifted, rolledBack})))
	ask := `kubectl exec deploy/archive -n $NS -- python -c 'import sqlite3; [print(row[0]) for row in sqlite3.connect("/data/events.db").execute("SELECT type FROM events ORDER BY type")]'`
	s.must(kit.Wait(ctx, patience, "the archive to have all events", func(ctx context.Context) error {
		out, err := suite.Shell(ctx, "", ask, map[string]string{"NS": s.ns})
		if err != nil {
			return err
		}
		if got := strings.Fields(out); !slices.Equal(got, want) {
			return kit.NotYet("it has %q, want %q", got, want)
		}
		return nil
	}))
	time.Sleep(still)
	out, err := suite.Shell(ctx, "", ask, map[string]string{"NS": s.ns})
	s.must(err)
	if got := strings.Fields(out); !slices.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
	t.Logf("the archive has\n%s", out)
}
