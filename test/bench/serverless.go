// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serverless is the doorbell and a core that does not sleep. What Serving needs to start its pod depends on the cluster,
// and TestServerless measures it there.
var serverless = contestant{
	Name: serverlessName, binary: coreName, decode: fromCDEvent, silent: 30 * time.Second,
	start: func(ctx context.Context, t *turn) error { return t.startServerless(ctx) },
}

const (
	serverlessName = "doorbell and core"
	coreName       = "core"
	// doorbellName is the doorbell's program, and its ServiceAccount.
	doorbellName = "doorbell"
)

// woken is what a contestant did in the scenario.
type woken struct {
	result
	Services int
	// Main is the memory of the core, or of the contestant, after the changes; Doorbell that of the doorbell.
	Main, Doorbell memory
	// BellCPU is the part of the processor time that the doorbell needed.
	BellCPU time.Duration
	// Sweep is what one more sweep costs, after the changes.
	Sweep     cpu
	SweepTook time.Duration
}

// sleepless measures how fast the core starts, and then compares it with programs that stay, at a calm pace.
func (b *bench) sleepless(ctx context.Context) error {
	if err := b.atMost(ctx, b.plan.Sleepers[0]); err != nil {
		return err
	}
	if err := b.starts(ctx); err != nil {
		return fmt.Errorf("starting the core: %w", err)
	}
	for _, services := range b.plan.Sleepers {
		if err := b.populate(ctx, services); err != nil {
			return err
		}
		// The controller makes the baseline. Without that, the new Services would count as created.
		if err := errors.Join(b.forget(ctx), rest(ctx, 2*time.Second)); err != nil {
			return err
		}
		for _, c := range []contestant{ours, apiServerSource, serverless} {
			w := woken{Services: services}
			var err error
			w.result, err = b.play(ctx, c, 0, func(ctx context.Context, t *turn) error { return b.calmly(ctx, t, &w) })
			if err != nil {
				return fmt.Errorf("with %d Services: %w", services, err)
			}
			// The sweep came after the changes, and is reported on its own.
			w.CPU, w.Took = w.CPU.minus(w.Sweep), w.Took-w.SweepTook
			b.Woken = append(b.Woken, w)
			b.say("%s %d Services: p50 %v, p99 %v, lost %d, %v of processor time, %s resident", c, services,
				percentile(w.Latencies, 50), percentile(w.Latencies, 99), len(w.Lost), w.CPU.Program, mebibytes(w.Main.Resident))
		}
	}
	return nil
}

// calmly makes the changes, and reads what the programs needed.
func (b *bench) calmly(ctx context.Context, t *turn, w *woken) error {
	bell := func() (time.Duration, error) {
		if len(t.beside) == 0 {
			return 0, nil
		}
		return cpuOf(t.beside[0].pid())
	}
	before, err := bell()
	if err != nil {
		return err
	}
	err = b.steadily(ctx, t, b.plan.CalmPace, b.plan.CalmPace*int(b.plan.CalmFor.Seconds()))
	if err != nil {
		return err
	}
	after, err := bell()
	if err != nil {
		return err
	}
	w.BellCPU = after - before
	if w.Main, err = memoryOf(t.process.pid()); err != nil || len(t.beside) == 0 {
		return err
	}
	if w.Doorbell, err = memoryOf(t.beside[0].pid()); err != nil {
		return err
	}
	return b.sweep(ctx, t, w)
}

// sweep has the core sweep, while nothing has changed.
func (b *bench) sweep(ctx context.Context, t *turn, w *woken) error {
	token, err := b.doorbellToken(ctx, coreAudience)
	if err != nil {
		return err
	}
	before, err := b.cpuNow(t.pids()...)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.answered(ctx, t.process, t.address, token, sweepRing); err != nil {
		return err
	}
	w.SweepTook = time.Since(began)
	after, err := b.cpuNow(t.pids()...)
	w.Sweep = after.minus(before)
	return err
}

// starts starts the core again and again, and measures the time until it has answered a ring.
func (b *bench) starts(ctx context.Context) error {
	token, err := b.doorbellToken(ctx, coreAudience)
	if err != nil {
		return err
	}
	for range b.plan.Starts {
		began := time.Now()
		core, address, err := b.launchCore(ctx)
		if err != nil {
			return err
		}
		err = b.answered(ctx, core, address, token, b.changeRing())
		took := time.Since(began)
		core.stop()
		if err != nil {
			return err
		}
		b.Starts = append(b.Starts, took)
	}
	b.say("the core has answered a ring %v after its start (p50 of %d; %v at most)", percentile(b.Starts, 50), len(b.Starts), percentile(b.Starts, 100))
	return nil
}

// coreAudience is the audience that the core expects in tokens.
const coreAudience = "knative-cdevents-core"

// sweepRing is that of PingSource.
var sweepRing = map[string]string{"Ce-Type": "dev.knative.sources.ping"}

// changeRing is about the probe.
func (b *bench) changeRing() map[string]string {
	return map[string]string{
		"Ce-Type": "dev.knative.apiserver.ref.update", "Ce-Apiversion": "serving.knative.dev/v1", "Ce-Kind": "Service",
		"Ce-Namespace": namespace, "Ce-Name": b.cast.probe.route.Name,
	}
}

// answered rings until the core has answered.
func (b *bench) answered(ctx context.Context, core *process, address, token string, ring map[string]string) error {
	for end := time.Now().Add(awake); time.Now().Before(end); {
		if err := core.alive(); err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
		if err != nil {
			return fmt.Errorf("making a ring: %w", err)
		}
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "/bench", "Authorization": "Bearer " + token,
		} {
			r.Header.Set(name, value)
		}
		for name, value := range ring {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			if err := response.Body.Close(); err != nil {
				return fmt.Errorf("reading the answer: %w", err)
			}
			if response.StatusCode < 300 {
				return nil
			}
			if response.StatusCode < 500 {
				return fmt.Errorf("the core answered a ring with %s; its log is %s", response.Status, core.log)
			}
		}
		if err := rest(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the core answered no ring within %v; its log is %s", awake, core.log)
}

// startServerless starts the core, and then the doorbell.
func (t *turn) startServerless(ctx context.Context) error {
	core, address, err := t.launchCore(ctx)
	if err != nil {
		return err
	}
	t.process, t.address = core, address
	bell, err := t.launchDoorbell(ctx, address)
	if err != nil {
		core.stop()
		return err
	}
	t.beside = []*process{bell}
	return nil
}

func (s *stage) launchCore(ctx context.Context) (core *process, address string, err error) {
	config, err := s.kubeconfig(serverlessName)
	if err != nil {
		return nil, "", err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, "", err
	}
	core, err = program{
		name: coreName, path: filepath.Join(s.programs, coreName), log: filepath.Join(s.dir, coreName+".log"), env: []string{"SYSTEM_NAMESPACE=" + systemNamespace},
	}.launch(ctx, "--kubeconfig="+config, "--listen=127.0.0.1:"+port)
	return core, "http://127.0.0.1:" + port + "/", err
}

// launchDoorbell starts the doorbell as a pod would, but with all rights: what it costs is measured here, and not what
// it may do.
func (s *stage) launchDoorbell(ctx context.Context, core string) (*process, error) {
	files := map[string]string{"ca": string(s.cp.Config().CAData)}
	for name, audience := range map[string]string{"api": "", "core": coreAudience} {
		var err error
		if files[name], err = s.doorbellToken(ctx, audience); err != nil {
			return nil, err
		}
	}
	path := func(name string) string { return filepath.Join(s.dir, doorbellName+"-"+name) }
	for name, content := range files {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("writing a file for the doorbell: %w", err)
		}
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	return program{name: doorbellName, path: filepath.Join(s.programs, doorbellName), log: filepath.Join(s.dir, doorbellName+".log")}.launch(ctx,
		"--core="+core, "--core-token-file="+path("core"), "--server="+s.cp.Config().Host, "--server-ca-file="+path("ca"),
		"--server-token-file="+path("api"), "--namespace="+systemNamespace, "--listen=127.0.0.1:"+port)
}

// doorbellToken returns a token of the doorbell's ServiceAccount, which it creates: for an audience, or for the API
// server.
func (s *stage) doorbellToken(ctx context.Context, audience string) (string, error) {
	accounts := s.kube.CoreV1().ServiceAccounts(systemNamespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: doorbellName}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating the doorbell's ServiceAccount: %w", err)
	}
	_, err := s.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: doorbellName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: doorbellName}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("granting the doorbell its rights: %w", err)
	}
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	token, err := accounts.CreateToken(ctx, doorbellName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for the doorbell: %w", err)
	}
	return token.Status.Token, nil
}

func (r report) serverless(p *page) {
	all := r.results.Woken
	if len(all) == 0 {
		return
	}
	p.head("Serverless: %d changes at %d a second", all[0].Changes, r.plan.CalmPace)
	p.row("program", "Services", "p50 ms", "p99 ms", "lost", "CPU ms per event: program", "of that, the doorbell", "to resident", "API server", "to resident",
		"API writes per event", "resident", "doorbell, resident", "doorbell, peak", "a sweep", "CPU ms: programs", "API server")
	p.rule(17)
	for _, w := range all {
		peer := r.woken(ours, w.Services)
		bell, peak, ring := "–", "–", "–"
		took, swept, server := "–", "–", "–"
		if w.Doorbell.Resident > 0 {
			took, swept, server = seconds(w.SweepTook), fmt.Sprint(w.Sweep.Program.Milliseconds()), fmt.Sprint(w.Sweep.APIServer.Milliseconds())
			bell, peak, ring = mebibytes(w.Doorbell.Resident), mebibytes(w.Doorbell.Peak), fmt.Sprintf("%.1f", w.perEvent(w.BellCPU))
		}
		p.row(w.Contestant, fmt.Sprint(w.Services), fmt.Sprintf("%.1f", p50(w.result)), fmt.Sprintf("%.1f", p99(w.result)), fmt.Sprint(len(w.Lost)),
			fmt.Sprintf("%.1f", w.perEvent(w.CPU.Program)), ring, ratio(w.perEvent(w.CPU.Program), peer.perEvent(peer.CPU.Program)),
			fmt.Sprintf("%.1f", w.perEvent(w.CPU.APIServer)), ratio(w.perEvent(w.CPU.APIServer), peer.perEvent(peer.CPU.APIServer)),
			apiWrites([]result{w.result}), mebibytes(w.Main.Resident), bell, peak, took, swept, server)
	}
	p.line("")
	p.line("The core was warm, and had no pod to start. After exec, it answered its first ring in %v (p50 of %d starts; %v at most). The doorbell's writes of its Lease do not count. %s",
		percentile(r.results.Starts, 50).Round(time.Millisecond), len(r.results.Starts), percentile(r.results.Starts, 100).Round(time.Millisecond),
		others(resultsOf(all)))
}

// perEvent is a time in milliseconds, divided by the number of events.
func (w woken) perEvent(d time.Duration) float64 {
	return milliseconds(d) / float64(max(w.Arrived(), 1))
}

func resultsOf(all []woken) []result {
	out := make([]result, len(all))
	for i, w := range all {
		out[i] = w.result
	}
	return out
}

func (r report) woken(c contestant, services int) woken {
	for _, w := range r.results.Woken {
		if w.Contestant == c.Name && w.Services == services {
			return w
		}
	}
	return woken{}
}

// Aims of the serverless mode. Memory is in bytes.
const (
	coreStart   = 300 * time.Millisecond
	coreMemory  = 60 << 20
	bellMemory  = 12 << 20
	bellToPeer  = .25
	warmP50     = 100.
	processorBy = 3.
)

func (r report) serverlessAims(p *page) {
	if len(r.results.Woken) == 0 {
		return
	}
	start := percentile(r.results.Starts, 50)
	p.row(fmt.Sprintf("the core answers its first ring within %v of its start", coreStart), start.Round(time.Millisecond).String(), verdict(start <= coreStart))
	for _, w := range r.results.Woken {
		if w.Contestant != serverless.Name {
			continue
		}
		resident, source := r.woken(ours, w.Services), r.woken(apiServerSource, w.Services)
		with := fmt.Sprintf(" with %d Services", w.Services)
		p.row(fmt.Sprintf("core at most %s", mebibytes(coreMemory))+with, mebibytes(w.Main.Resident), verdict(w.Main.Resident <= coreMemory))
		p.row(fmt.Sprintf("doorbell at most %s, and %.2f of ApiServerSource's", mebibytes(bellMemory), bellToPeer)+with,
			fmt.Sprintf("%s; %s", mebibytes(w.Doorbell.Resident), mebibytes(source.Main.Resident)),
			verdict(w.Doorbell.Resident <= bellMemory && float64(w.Doorbell.Resident) <= bellToPeer*float64(source.Main.Resident)))
		p.row(fmt.Sprintf("p50 at most %.0f ms while the core is warm", warmP50)+with, fmt.Sprintf("%.1f ms; resident %.1f ms", p50(w.result), p50(resident.result)),
			verdict(p50(w.result) <= warmP50))
		mine, theirs := w.perEvent(w.CPU.Program), resident.perEvent(resident.CPU.Program)
		p.row(fmt.Sprintf("processor time per event at most %.0f times the resident controller's", processorBy)+with, fmt.Sprintf("%.1f ms; %.1f ms", mine, theirs),
			verdict(mine <= processorBy*theirs))
	}
}
