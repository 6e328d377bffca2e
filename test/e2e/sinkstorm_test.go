// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/webhook/certificates/resources"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// promptly is the delivery limit for a healthy sink while others fail. It is not a measure of speed: the time-out for
// a hanging sink is ten times as long.
const promptly = 3 * time.Second

// TestSinksFail lets one sink answer 503 for two minutes and then hang, and another one fail TLS, while traffic is
// moved. No event is lost, and a third sink is not affected.
func TestSinksFail(t *testing.T) {
	if !suite.full {
		t.Skip("it takes minutes: make e2e-full")
	}
	s := newStorm(t)
	ctx := t.Context()
	well := s.serve("well")
	s.source("well", service("well"))
	key, cert, ca, err := resources.CreateCerts(ctx, "secure", s.ns, time.Now().Add(time.Hour))
	s.must(err)
	secure := s.serveWith("secure", map[string]string{"TLS_CERT": string(cert), "TLS_KEY": string(key)})
	s.source("secure", uri("https://secure."+s.ns+".svc.cluster.local"))

	s.deployAll("one", "two", "three", "four")
	s.must(s.sink.fault(ctx, `{"status":503}`))
	s.blow(60, 2*time.Second)()
	s.must(s.sink.fault(ctx, `{"hang":true}`))
	s.blow(20, 2*time.Second)()
	s.must(s.sink.fault(ctx, `{}`))

	if got := choose(secure.mustEvents(t), accepted); len(got) > 0 {
		t.Errorf("%d events were sent to a sink with an untrusted certificate, the first is %s", len(got), got[0])
	}
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		source, err := suite.Ours.CDEventSources(s.ns).Get(ctx, "secure", metav1.GetOptions{})
		if err != nil {
			return err
		}
		trusted := string(ca)
		source.Spec.Sink.CACerts = &trusted
		_, err = suite.Ours.CDEventSources(s.ns).Update(ctx, source, metav1.UpdateOptions{})
		return err
	}))
	for _, name := range s.names {
		_, err := s.move(ctx, name)
		s.must(err)
	}
	var v oracle.Verdict
	for _, k := range []*sink{well, s.sink, secure} {
		v = s.judge(k, 2*time.Minute)
	}
	for _, e := range well.mustEvents(t) {
		when, err := time.Parse(time.RFC3339Nano, e.cd.Context.Timestamp)
		s.must(err)
		if late := e.Time.Sub(when); late > promptly {
			t.Errorf("a healthy sink received an event %s late: %s", late, e)
		}
	}
	s.must(kit.Wait(ctx, time.Minute, "healthy sources", func(ctx context.Context) error {
		for _, name := range []string{"source", "secure", "well"} {
			source, err := suite.Ours.CDEventSources(s.ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if source.Status.Pending != 0 || !source.Status.GetCondition("Delivering").IsTrue() {
				return kit.NotYet("%s: %s", name, compact(source.Status))
			}
		}
		return nil
	}))
	s.account(v)
}

func (k *sink) mustEvents(t *testing.T) []event {
	t.Helper()
	all, err := k.events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}
