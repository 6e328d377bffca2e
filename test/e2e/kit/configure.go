// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Configure sets values in a ConfigMap of the controller; an empty value removes the key.
func (k Controller) Configure(ctx context.Context, name string, values map[string]string) error {
	return k.SetConfig(ctx, Namespace, name, values)
}

// SetConfig does so in any ConfigMap.
func (k *Kit) SetConfig(ctx context.Context, namespace, name string, values map[string]string) error {
	data := map[string]any{}
	for key, value := range values {
		data[key] = value
		if value == "" {
			data[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding the values of ConfigMap %s: %w", name, err)
	}
	_, err = k.Kube.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("configuring %s: %w", name, err)
	}
	return nil
}
