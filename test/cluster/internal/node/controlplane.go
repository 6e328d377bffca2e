// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/kube"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
)

// plane is etcd and an API server: of a node, or alone for tests that need no pods.
type plane struct {
	dir, bin string
	ip       string
	port     int
	etcdPort int
	peerPort int
	certs    *certificates
	// audit is the path of the log, policy that of its policy; changed is the policy's content.
	audit, policy, changed string
}

// seldom lets a program collect its garbage less often: processors are scarcer than memory where tests run.
var seldom = []string{"GOGC=400"}

func (n *Node) apiDaemons() ([]proc.Daemon, error) {
	policy, changed, err := n.config("audit-policy.yaml", nil)
	if err != nil {
		return nil, err
	}
	return plane{
		dir: n.dir, bin: n.bin[build.ControlPlane.Name], ip: IP, port: APIPort, etcdPort: etcdPort, peerPort: 2380,
		certs: n.certs, audit: AuditLog(), policy: policy, changed: changed,
	}.daemons()
}

func (p plane) daemons() ([]proc.Daemon, error) {
	c := p.certs
	etcdURL, peerURL := fmt.Sprintf("https://127.0.0.1:%d", p.etcdPort), fmt.Sprintf("https://127.0.0.1:%d", p.peerPort)
	etcdClient, err := kube.New(etcdURL, c.etcdCA.CertFile(), c.etcdClient)
	if err != nil {
		return nil, err
	}
	client, err := kube.New(fmt.Sprintf("https://%s:%d", p.ip, p.port), c.ca.CertFile(), c.kubeletClient)
	if err != nil {
		return nil, err
	}
	etcd := proc.Daemon{
		Name: "etcd", Path: p.bin + "/etcd", Patience: time.Minute, Ready: answers(etcdClient, "/health"), Env: seldom,
		Args: []string{
			"--name=" + Name, "--data-dir=" + filepath.Join(p.dir, "etcd"), "--log-level=warn",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=" + Name + "=" + peerURL,
			"--client-cert-auth", "--trusted-ca-file=" + c.etcdCA.CertFile(),
			"--cert-file=" + c.etcd.Cert, "--key-file=" + c.etcd.Key,
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + c.etcdCA.CertFile(),
			"--peer-cert-file=" + c.etcdPeer.Cert, "--peer-key-file=" + c.etcdPeer.Key,
		},
	}
	api := proc.Daemon{
		Name: "kube-apiserver", Path: p.bin + "/kube-apiserver", Patience: 2 * time.Minute,
		Ready: answers(client, "/readyz"), Depends: []string{p.changed}, Env: seldom,
		Args: []string{
			"--advertise-address=" + p.ip, "--bind-address=" + p.ip, fmt.Sprintf("--secure-port=%d", p.port),
			"--etcd-servers=" + etcdURL, "--etcd-cafile=" + c.etcdCA.CertFile(),
			"--etcd-certfile=" + c.etcdClient.Cert, "--etcd-keyfile=" + c.etcdClient.Key,
			"--tls-cert-file=" + c.api.Cert, "--tls-private-key-file=" + c.api.Key,
			"--client-ca-file=" + c.ca.CertFile(), "--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--service-cluster-ip-range=" + serviceCIDR,
			"--service-account-key-file=" + c.signingKey, "--service-account-signing-key-file=" + c.signingKey,
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--kubelet-certificate-authority=" + c.ca.CertFile(), "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate=" + c.kubeletClient.Cert, "--kubelet-client-key=" + c.kubeletClient.Key,
			"--requestheader-client-ca-file=" + c.frontCA.CertFile(), "--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			"--proxy-client-cert-file=" + c.front.Cert, "--proxy-client-key-file=" + c.front.Key,
			"--audit-policy-file=" + p.policy, "--audit-log-path=" + p.audit,
			"--audit-log-maxsize=200", "--audit-log-maxbackup=10",
		},
	}
	return []proc.Daemon{etcd, api}, nil
}

// managers are the controller manager and the scheduler. They use no leader election: there is one of each, and after a
// crash nothing has to wait for a lease to expire.
func (n *Node) managers(bin string) ([]proc.Daemon, error) {
	c := n.certs
	manager, err := kube.New("https://127.0.0.1:10257", c.ca.CertFile(), c.kubeletClient)
	if err != nil {
		return nil, err
	}
	scheduler, err := kube.New("https://127.0.0.1:10259", c.ca.CertFile(), c.kubeletClient)
	if err != nil {
		return nil, err
	}
	common := func(kubeconfig, cert, key string) []string {
		return []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--client-ca-file=" + c.ca.CertFile(), "--requestheader-client-ca-file=" + c.frontCA.CertFile(),
			"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--bind-address=127.0.0.1", "--leader-elect=false",
		}
	}
	return []proc.Daemon{
		{
			Name: "kube-controller-manager", Path: bin + "/kube-controller-manager", Patience: time.Minute,
			Ready: answers(manager, "/healthz"), Env: seldom,
			Args: append(common(n.path("etc", "controller-manager.kubeconfig"), c.managerServing.Cert, c.managerServing.Key),
				"--use-service-account-credentials=true", "--service-account-private-key-file="+c.signingKey,
				"--root-ca-file="+c.ca.CertFile(),
				"--cluster-signing-cert-file="+c.ca.CertFile(), "--cluster-signing-key-file="+c.ca.KeyFile(),
				"--allocate-node-cidrs=true", "--cluster-cidr="+podCIDR, "--node-cidr-mask-size=24",
				"--service-cluster-ip-range="+serviceCIDR),
		},
		{
			Name: "kube-scheduler", Path: bin + "/kube-scheduler", Patience: time.Minute,
			Ready: answers(scheduler, "/healthz"),
			Args:  common(n.path("etc", "scheduler.kubeconfig"), c.schedServing.Cert, c.schedServing.Key),
		},
	}, nil
}

func answers(c *kube.Client, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Text(ctx, path)
		return err
	}
}
