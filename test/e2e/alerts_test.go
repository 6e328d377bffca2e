// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/webhook/certificates/resources"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

type labels = map[string]string

// TestAlerts causes the alerts, one after the other. For each, it runs the commands of the runbook, repairs what the
// runbook says, and sees the alert end. Prometheus evaluates the shipped rules, with seconds for minutes.
func TestAlerts(t *testing.T) {
	w := newWatched(t)
	for _, c := range []struct {
		alert string
		cause func(*watched)
	}{
		{"SinkDownAndPendingTooLong", (*watched).sinkDown},
		{"Dropped", (*watched).dropped},
		{"LedgerRefused", (*watched).ledgerRefused},
		{"ControllerMissing", (*watched).controllerMissing},
		{"LeaderMissing", (*watched).leaderMissing},
		{"WebhookAway", (*watched).webhookAway},
		{"WebhookCertificateExpires", (*watched).certificateExpires},
		{"Gates", (*watched).gatesWithoutEvidence},
		{"AnotherShare", (*watched).anotherShare},
	} {
		t.Run(c.alert, func(t *testing.T) { c.cause(w.in(t)) })
	}
}

func (w *watched) sinkDown() {
	ctx := w.Context()
	w.source("releases", service("sink"))
	w.must(w.sink.fault(ctx, `{"status":503}`))
	w.deploy("shop")
	of := labels{"source": w.ns + "/releases"}
	w.fires("CDEventsSinkDown", of)
	w.looks("CDEventsSinkDown", "releases", "503")
	w.fires("CDEventsPendingTooLong", of)
	w.looks("CDEventsPendingTooLong", "releases", "503", "shop", "to releases")
	// What the runbooks say: repair the sink. The events follow by themselves.
	w.must(w.sink.fault(ctx, `{}`))
	w.sink.exactly(w.T, birth, about("shop"), accepted)
	w.resolves("CDEventsSinkDown", of)
	w.resolves("CDEventsPendingTooLong", of)
}

func (w *watched) dropped() {
	ctx := w.Context()
	strict := w.serve("strict")
	w.source("strict", service("strict"))
	w.must(strict.fault(ctx, `{"status":400}`))
	w.deploy("books")
	of := labels{"reason": "Rejected"}
	w.fires("CDEventsDropped", of)
	w.looks("CDEventsDropped", "strict", "books", w.ns, "Rejected")
	// Correct the sink, and send the present state again.
	w.must(strict.fault(ctx, `{}`))
	w.source("again", service("strict"), func(spec *v1alpha1.CDEventSourceSpec) { spec.Replay = v1alpha1.ReplayCurrent })
	strict.atLeast(w.T, []string{deployed}, about("books"), accepted)
	w.resolves("CDEventsDropped", of)
	for _, name := range []string{"strict", "again"} {
		w.must(suite.Ours.CDEventSources(w.ns).Delete(ctx, name, metav1.DeleteOptions{}))
	}
}

// refuses denies all writes of the ledger.
const refuses = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: knative-cdevents-e2e}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [knative-cdevents.dev], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [cdeventsubjects, cdeventsubjects/*]}
  validations:
  - {expression: "false", reason: Forbidden, message: "the ledger is closed for a test"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: knative-cdevents-e2e}
spec: {policyName: knative-cdevents-e2e, validationActions: [Deny]}
`

func (w *watched) ledgerRefused() {
	w.source("ledger", service("sink"))
	open := func() { w.must(suite.Unapply(context.WithoutCancel(w.Context()), w.ns, refuses)) }
	w.Cleanup(open)
	w.must(suite.Apply(w.Context(), w.ns, refuses))
	time.Sleep(5 * time.Second) // until the API server knows the policy
	w.deploy("paper")
	w.fires("CDEventsLedgerRefused", labels{})
	w.looks("CDEventsLedgerRefused", "", "the ledger is closed for a test", "forbidden", "readyz check passed")
	open()
	// Nothing is lost, and the controller was not restarted.
	w.sink.atLeast(w.T, birth, about("paper"))
	w.resolves("CDEventsLedgerRefused", labels{})
}

func (w *watched) controllerMissing() {
	d, err := suite.Controller.Deployment(w.Context())
	w.must(err)
	start := func() { w.must(suite.Controller.Scale(context.WithoutCancel(w.Context()), int(*d.Spec.Replicas))) }
	w.Cleanup(start)
	w.must(suite.Controller.Scale(w.Context(), 0))
	w.fires("CDEventsControllerMissing", labels{})
	w.looks("CDEventsControllerMissing", "", "webhook", "0/0")
	start()
	w.resolves("CDEventsControllerMissing", labels{})
}

func (w *watched) leaderMissing() {
	allow := w.forbids("controller", "leases", "update", "config/200-role.yaml")
	w.fires("CDEventsLeaderMissing", labels{})
	w.looks("CDEventsLeaderMissing", "", "controller.services", "forbidden", "no\n")
	allow()
	w.resolves("CDEventsLeaderMissing", labels{})
	w.must(suite.Controller.WaitLeader(w.Context()))
}

func (w *watched) webhookAway() {
	start := w.withoutWebhook()
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "refused"}, Spec: v1alpha1.CDEventSourceSpec{},
	}
	source.Spec.Sink = service("sink")
	// Until then, kube-proxy may lead to the pod that was.
	w.must(kit.Wait(w.Context(), time.Minute, "the API server not to reach the webhook", func(ctx context.Context) error {
		_, err := suite.Ours.CDEventSources(w.ns).Create(ctx, source, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return kit.NotYet("creating a source: %v", err)
		}
		return nil
	}))
	of := labels{"name": "validation.webhook.knative-cdevents.dev"}
	w.fires("CDEventsWebhookUnreachable", of)
	w.looks("CDEventsWebhookUnreachable", "", "notAfter")
	w.fires("CDEventsWebhookMissing", labels{"webhook": "webhook"})
	w.looks("CDEventsWebhookMissing", "", "0/0")
	start()
	w.resolves("CDEventsWebhookMissing", labels{"webhook": "webhook"})
	w.resolves("CDEventsWebhookUnreachable", of)
}

func (w *watched) certificateExpires() {
	ctx := w.Context()
	expires := func() time.Time {
		var seconds float64
		w.must(kit.Wait(ctx, time.Minute, "the webhook's metrics", func(ctx context.Context) error {
			// Both replicas read the same certificate.
			all, err := suite.Prometheus.Query(ctx, `cdevents_webhook_certificate_expiration_timestamp_seconds{webhook="webhook"}`)
			if err == nil && (len(all) != 2 || all[0].Value[1] != all[1].Value[1] || !strings.HasPrefix(all[0].Metric["pod"], "webhook-")) {
				return kit.NotYet("they are %v", all)
			}
			if err == nil {
				_, err = fmt.Sscan(fmt.Sprint(all[0].Value[1]), &seconds)
			}
			return err
		}))
		return time.Unix(int64(seconds), 0)
	}
	if at := expires(); time.Until(at) < 24*time.Hour {
		w.Errorf("a new certificate is valid until %s", at)
	}
	// The webhook renews a certificate a day before it expires, if it may write it.
	allow := w.forbids("webhook", "secrets", "update", "config/200-webhook-roles.yaml")
	key, cert, ca, err := resources.CreateCerts(ctx, "webhook", kit.Namespace, time.Now().Add(time.Hour))
	w.must(err)
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{resources.ServerKey: key, resources.ServerCert: cert, resources.CACert: ca}})
	w.must(err)
	_, err = suite.Kube.CoreV1().Secrets(kit.Namespace).Patch(ctx, "webhook-certs", types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
	w.fires("CDEventsWebhookCertificateExpires", labels{"webhook": "webhook"})
	w.looks("CDEventsWebhookCertificateExpires", "", "notAfter", "forbidden")
	allow()
	w.does("CDEventsWebhookCertificateExpires", "", "kubectl patch secret")
	w.resolves("CDEventsWebhookCertificateExpires", labels{"webhook": "webhook"})
	if at := expires(); time.Until(at) < 24*time.Hour {
		w.Errorf("the renewed certificate is valid until %s", at)
	}
	w.must(suite.Controller.WaitWebhook(ctx))
}

// gatesWithoutEvidence lets two gates judge a canary that gets no requests. One ends, and the other waits for requests.
func (w *watched) gatesWithoutEvidence() {
	ctx := w.Context()
	for name, timeout := range map[string]string{"patient": "10m", "brief": "25s"} {
		gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
		w.must(json.Unmarshal([]byte(`{"spec": {"service": "cart", "watch": true,
			"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "10s", "timeout": "`+timeout+`"},
			"minimum": {"canaryRequests": 50, "baselineRequests": 50}}}`), gate))
		_, err := suite.Ours.CanaryGates(w.ns).Create(ctx, gate, metav1.CreateOptions{})
		w.must(err)
	}
	w.deploy("cart")
	w.must(suite.Services.Update(ctx, w.ns, "cart", func(s *servingv1.Service) {
		kit.SetVersion(s, "two")
		kit.SetTraffic(s, kit.Share{Revision: kit.RevisionName("cart", 1), Percent: 50}, kit.Share{Percent: 50})
	}))
	_, err := suite.Services.Wait(ctx, w.ns, "cart", kit.RevisionName("cart", 2))
	w.must(err)
	of := func(gate string, more labels) labels {
		out := labels{"k8s_namespace_name": w.ns, "kn_service_name": "cart", "gate": gate}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	w.fires("CanaryGateWithoutEvidence", of("patient", nil))
	w.looks("CanaryGateWithoutEvidence", "patient", "cart-00002", "0 of at least 50")
	// With a request before its end, the other one would have judged pods that have just started.
	w.must(kit.Wait(ctx, time.Minute, "the end of the brief run", func(ctx context.Context) error {
		gate, err := suite.Ours.CanaryGates(w.ns).Get(ctx, "brief", metav1.GetOptions{})
		if err == nil && (gate.Status.Run == nil || gate.Status.Run.CompletionTime == nil) {
			return kit.NotYet("it is still judging")
		}
		return err
	}))
	stop := w.send()
	w.resolves("CanaryGateWithoutEvidence", of("patient", nil))

	// This run has ended long ago: a counter stays at zero for two minutes, so that its increase is seen.
	w.fires("CanaryGateInconclusive", of("brief", labels{"reason": "InsufficientSample"}))
	w.looks("CanaryGateInconclusive", "brief", "InsufficientSample")
	w.does("CanaryGateInconclusive", "brief", "kubectl cdevents why")
	// Change the split to judge again: there are requests now.
	w.must(suite.Services.PatchTraffic(ctx, w.ns, "cart", `[{"revisionName":"cart-00001","percent":60},{"revisionName":"cart-00002","percent":40}]`))
	w.resolves("CanaryGateInconclusive", of("brief", nil))
	w.Logf("%d requests were answered", stop())
}

// anotherShare lets a canary of 5 % handle about a third of the requests.
func (w *watched) anotherShare() {
	ctx := w.Context()
	other := emptyScene(w.T)
	app := other.sharded()
	other.watches("10m")
	w.must(suite.Carts.WaitOneCluster(ctx, app))
	w.must(suite.Carts.Split(ctx, app, 5))
	defer other.sendTo(app)()
	of := labels{"k8s_namespace_name": other.ns, "kn_service_name": "cart", "kn_revision_name": app.Canary()}
	w.fires("CanaryHandlesAnotherShare", of)
	there := w.in(w.T)
	there.ns = other.ns
	// In seconds instead of minutes, the alert may come before the gate's first window.
	w.must(kit.Wait(ctx, time.Minute, "what the gate knows of the share", func(context.Context) error {
		if out, err := there.shell(ctx, "kubectl cdevents gate $NAME -n $NS", "cart"); err != nil || !strings.Contains(out, "times its share") {
			return kit.NotYet("%v: %s", err, out)
		}
		return nil
	}))
	there.looks("CanaryHandlesAnotherShare", "cart", "times its share", "Route gives it")

	// Until the Service has placement, choose steps with this factor in mind: a step as large as what it handles.
	all, err := suite.Prometheus.Query(ctx, fmt.Sprintf("max(canary_handled_share_ratio{k8s_namespace_name=%q, kn_revision_name=%q})", other.ns, app.Canary()))
	w.must(err)
	if len(all) != 1 {
		w.Fatalf("the canary's share: %v", all)
	}
	var share float64
	_, err = fmt.Sscan(fmt.Sprint(all[0].Value[1]), &share)
	w.must(err)
	w.must(suite.Carts.Split(ctx, app, int64(100*share)))
	w.resolves("CanaryHandlesAnotherShare", of)
}
