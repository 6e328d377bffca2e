// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package clusterapi pins what the cluster builds; it is never compiled itself.
package clusterapi

import (
	_ "sigs.k8s.io/cluster-api"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm"
	_ "sigs.k8s.io/cluster-api/controlplane/kubeadm"
	_ "sigs.k8s.io/cluster-api/test/infrastructure/docker"
)
