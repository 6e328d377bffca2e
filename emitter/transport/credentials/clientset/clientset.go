// SPDX-License-Identifier: Apache-2.0

// Package clientset asks the API server for credentials, by client-go's client for all of Kubernetes.
package clientset

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// API implements credentials.API. Its errors are those of the API server.
type API struct{ kubernetes.Interface }

// Secret reads one Secret.
func (a API) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return a.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// ServiceAccount reads one ServiceAccount.
func (a API) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return a.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// CreateServiceAccount creates one.
func (a API) CreateServiceAccount(
	ctx context.Context, account *corev1.ServiceAccount,
) (*corev1.ServiceAccount, error) {
	return a.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
}

// CreateToken requests a token for a ServiceAccount.
func (a API) CreateToken(
	ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	return a.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
}
