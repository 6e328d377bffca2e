// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// Alone is a control plane without a node: etcd and an API server on the loopback link. It needs no root,
// and can run beside a whole cluster.
type Alone struct {
	dir     string
	say     *report.Reporter
	daemons *proc.Set
}

// NewAlone returns the control plane in the user's state folder.
func NewAlone(say *report.Reporter) (*Alone, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("finding the user's home (set HOME or XDG_STATE_HOME): %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return &Alone{dir: filepath.Join(base, "knative-cdevents-control-plane"), say: say}, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (a *Alone) Kubeconfig() string { return filepath.Join(a.dir, "admin.kubeconfig") }

// AuditLog returns the path of the API server's audit log.
func (a *Alone) AuditLog() string { return filepath.Join(a.dir, "log", "audit.log") }

func (a *Alone) open() error {
	for _, d := range []string{"etc", "pki"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o750); err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
	}
	var err error
	a.daemons, err = proc.NewSet(a.dir, host.SearchPath)
	return err
}

// Up starts whatever does not run.
func (a *Alone) Up(ctx context.Context, builder *build.Builder) error {
	if err := a.open(); err != nil {
		return err
	}
	unlock, err := store.Lock(filepath.Join(a.dir, "lock"), func() { a.say.Say("waiting for another cluster command to end") })
	if err != nil {
		return err
	}
	defer unlock()
	bin, err := builder.Dir(ctx, build.ControlPlane)
	if err != nil {
		return err
	}
	ports, err := a.ports()
	if err != nil {
		return err
	}
	const ip = "127.0.0.1"
	certs, err := issue(filepath.Join(a.dir, "pki"), a.dir, ip, fmt.Sprintf("https://%s:%d", ip, ports.API))
	if err != nil {
		return err
	}
	policy, changed, err := config(a.dir, "audit-policy.yaml", nil)
	if err != nil {
		return err
	}
	daemons, err := plane{
		dir: a.dir, bin: bin, ip: ip, port: ports.API, etcdPort: ports.Etcd, peerPort: ports.Peer,
		certs: certs, audit: a.AuditLog(), policy: policy, changed: changed,
	}.daemons()
	if err != nil {
		return err
	}
	for _, d := range daemons {
		began := time.Now()
		started, err := a.daemons.Ensure(ctx, d)
		if err != nil {
			return err
		}
		if started {
			a.say.Say("started %s in %s  (log: %s)", d.Name, time.Since(began).Round(10*time.Millisecond), a.daemons.Log(d.Name))
		}
	}
	return nil
}

// Down stops it; without keepData its data is deleted too.
func (a *Alone) Down(keepData bool) error {
	if !store.Exists(a.dir) {
		return nil
	}
	if err := a.open(); err != nil {
		return err
	}
	if err := a.daemons.Stop(10*time.Second, "kube-apiserver", "etcd"); err != nil {
		return err
	}
	if left := proc.Kill(proc.Marked(a.dir)...); len(left) > 0 {
		return fmt.Errorf("process %d (%s) does not end, even after SIGKILL", left[0].PID, left[0].Command)
	}
	a.say.Say("after: processes %d", len(proc.Marked(a.dir)))
	if keepData {
		return nil
	}
	return os.RemoveAll(a.dir)
}

type alonePorts struct {
	API  int `json:"api"`
	Etcd int `json:"etcd"`
	Peer int `json:"peer"`
}

// ports chooses free ports at the first start and keeps them, so that a kubeconfig stays valid.
func (a *Alone) ports() (alonePorts, error) {
	var p alonePorts
	file := filepath.Join(a.dir, "ports.json")
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &p) == nil { //nolint:gosec // in the state folder
		return p, nil
	}
	// Hold all listeners until all ports are known, so that no port is chosen twice.
	var held []net.Listener
	var errs []error
	for _, into := range []*int{&p.API, &p.Etcd, &p.Peer} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed again at once
		if err != nil {
			return p, errors.Join(fmt.Errorf("finding a free port: %w", err), errors.Join(errs...))
		}
		held = append(held, l)
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			*into = addr.Port
		}
	}
	for _, l := range held {
		errs = append(errs, l.Close())
	}
	data, err := json.Marshal(p)
	if err = errors.Join(append(errs, err)...); err != nil {
		return p, fmt.Errorf("choosing ports: %w", err)
	}
	return p, store.PublishFile(file, data, 0o600)
}
