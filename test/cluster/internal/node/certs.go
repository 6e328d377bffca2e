// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
)

// certificates are the files of all identities in the cluster. There are three authorities, as in a real cluster: a
// client of the API server is trusted neither by etcd nor as an aggregation proxy.
type certificates struct {
	ca, etcdCA, frontCA *pki.Authority
	signingKey          string

	api, kubeletClient, etcdClient, front pki.Pair
	etcd, etcdPeer                        pki.Pair
	kubelet, managerServing, schedServing pki.Pair
	prometheus                            pki.Pair
}

var loopback = []string{"localhost", "127.0.0.1"}

func issue(dir, state, ip, server string) (*certificates, error) {
	c := &certificates{signingKey: filepath.Join(dir, "sa.key")}
	for name, into := range map[string]**pki.Authority{"ca": &c.ca, "etcd-ca": &c.etcdCA, "front-proxy-ca": &c.frontCA} {
		a, err := pki.OpenAuthority(dir, name)
		if err != nil {
			return nil, err
		}
		*into = a
	}
	if err := pki.SigningKey(c.signingKey); err != nil {
		return nil, err
	}
	apiHosts := append([]string{
		ip, apiService, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}, loopback...)
	for _, want := range []struct {
		by   *pki.Authority
		leaf pki.Leaf
		into *pki.Pair
	}{
		{c.etcdCA, pki.Leaf{Name: "etcd", User: "etcd", Hosts: loopback}, &c.etcd},
		{c.etcdCA, pki.Leaf{Name: "etcd-peer", User: "etcd", Hosts: loopback}, &c.etcdPeer},
		{c.etcdCA, pki.Leaf{Name: "etcd-client", User: "kube-apiserver"}, &c.etcdClient},
		{c.frontCA, pki.Leaf{Name: "front-proxy-client", User: "front-proxy-client"}, &c.front},
		{c.ca, pki.Leaf{Name: "apiserver", User: "kube-apiserver", Hosts: apiHosts}, &c.api},
		{c.ca, pki.Leaf{Name: "apiserver-kubelet-client", User: kubeletClientUser}, &c.kubeletClient},
		{c.ca, pki.Leaf{Name: "kubelet", User: nodeUser, Groups: []string{"system:nodes"}, Hosts: []string{Name, IP}}, &c.kubelet},
		{c.ca, pki.Leaf{Name: "controller-manager-serving", User: "kube-controller-manager", Hosts: loopback}, &c.managerServing},
		{c.ca, pki.Leaf{Name: "scheduler-serving", User: "kube-scheduler", Hosts: loopback}, &c.schedServing},
	} {
		p, err := want.by.Issue(want.leaf)
		if err != nil {
			return nil, err
		}
		*want.into = p
	}
	return c, c.kubeconfigs(state, server)
}

const (
	kubeletClientUser = "kube-apiserver-kubelet-client"
	nodeUser          = "system:node:" + Name
	// PrometheusUser is Prometheus' user name at the API server.
	PrometheusUser = "knative-cdevents:prometheus"
)

func (c *certificates) kubeconfigs(state, server string) error {
	for _, u := range []struct {
		file, user string
		groups     []string
	}{
		{"admin", "kubernetes-admin", []string{"system:masters"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"proxy", "system:kube-proxy", nil},
		{"prometheus", PrometheusUser, nil},
		{"node", nodeUser, []string{"system:nodes"}},
	} {
		p, err := c.ca.Issue(pki.Leaf{Name: u.file, User: u.user, Groups: u.groups})
		if err != nil {
			return err
		}
		if u.file == "prometheus" {
			c.prometheus = p
		}
		path := filepath.Join(state, "etc", u.file+".kubeconfig")
		if u.file == "admin" {
			path = filepath.Join(state, "admin.kubeconfig")
		}
		if err := pki.WriteKubeconfig(path, server, c.ca.CertFile(), u.user, p); err != nil {
			return err
		}
	}
	return nil
}
