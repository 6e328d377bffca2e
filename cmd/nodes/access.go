// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// access returns how to reach the cluster of a kubeconfig that holds all that it needs.
func access(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New(`the Secret has no key "value"`)
	}
	stored, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if err := selfContained(stored); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*stored, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	config.Timeout = perRequest
	return config, nil
}

// selfContained refuses what reaches beyond the Secret, into this pod.
func selfContained(c *clientcmdapi.Config) error {
	for name, u := range c.AuthInfos {
		if u.Exec != nil || u.AuthProvider != nil {
			return fmt.Errorf("user %s runs a command to authenticate, which is refused", name)
		}
		if u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "" {
			return fmt.Errorf("user %s names files, which is refused: the Secret must hold certificates and tokens itself", name)
		}
	}
	for name, cluster := range c.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("cluster %s names a file, which is refused: the Secret must hold its certificate authority itself",
				name)
		}
	}
	return nil
}
