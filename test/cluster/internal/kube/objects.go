// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Meta has the metadata fields that are used.
type Meta struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Generation int64  `json:"generation"`
}

// Condition is one condition of an object's status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Deployment has the fields that show whether a Deployment is rolled out.
type Deployment struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		Replicas           int         `json:"replicas"`
		UpdatedReplicas    int         `json:"updatedReplicas"`
		AvailableReplicas  int         `json:"availableReplicas"`
		Conditions         []Condition `json:"conditions"`
	} `json:"status"`
}

// Settled reports whether all pods have the newest template and are available, and no older ones are left.
func (d Deployment) Settled() bool {
	s := d.Status
	return s.ObservedGeneration >= d.Metadata.Generation && s.UpdatedReplicas >= d.Spec.Replicas &&
		s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= d.Spec.Replicas
}

// Pod has the fields that explain why a pod does not start.
type Pod struct {
	Metadata Meta `json:"metadata"`
	Status   struct {
		Phase      string      `json:"phase"`
		Conditions []Condition `json:"conditions"`
		Containers []struct {
			Name         string `json:"name"`
			Ready        bool   `json:"ready"`
			RestartCount int    `json:"restartCount"`
			State        struct {
				Running *struct {
					StartedAt time.Time `json:"startedAt"`
				} `json:"running"`
				Waiting *struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
				} `json:"waiting"`
				Terminated *struct {
					Reason   string `json:"reason"`
					ExitCode int    `json:"exitCode"`
				} `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// Trouble says why the pod is not ready; "" if it is.
func (p Pod) Trouble() string {
	var why []string
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			why = append(why, "not scheduled: "+c.Message)
		}
	}
	for _, c := range p.Status.Containers {
		switch {
		case c.State.Waiting != nil:
			why = append(why, fmt.Sprintf("%s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message))
		case c.State.Terminated != nil:
			why = append(why, fmt.Sprintf("%s ended: %s, exit code %d", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode))
		case !c.Ready:
			why = append(why, fmt.Sprintf("%s is not ready (%d restarts)", c.Name, c.RestartCount))
		}
	}
	if len(why) == 0 && p.Status.Phase == "Pending" {
		why = append(why, "pending")
	}
	return strings.Join(why, "; ")
}

// RunsSinceBefore reports whether, by its status, a container has run since before a time.
func (p Pod) RunsSinceBefore(t time.Time) bool {
	for _, c := range p.Status.Containers {
		// The API truncates times to seconds.
		if c.State.Running != nil && c.State.Running.StartedAt.Before(t.Truncate(time.Second)) {
			return true
		}
	}
	return false
}

// Deployments lists the Deployments of a namespace.
func (c *Client) Deployments(ctx context.Context, namespace string) ([]Deployment, error) {
	var list struct {
		Items []Deployment `json:"items"`
	}
	err := c.Object(ctx, "/apis/apps/v1/namespaces/"+url.PathEscape(namespace)+"/deployments", &list)
	return list.Items, err
}

// Pods lists the pods of a namespace, or of all namespaces for "".
func (c *Client) Pods(ctx context.Context, namespace string) ([]Pod, error) {
	var list struct {
		Items []Pod `json:"items"`
	}
	path := "/api/v1/pods"
	if namespace != "" {
		path = "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
	}
	err := c.Object(ctx, path, &list)
	return list.Items, err
}

// NodeReady returns nil if the node is Ready; otherwise the error says why not.
func (c *Client) NodeReady(ctx context.Context, name string) error {
	var node struct {
		Status struct {
			Conditions []Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := c.Object(ctx, "/api/v1/nodes/"+url.PathEscape(name), &node); err != nil {
		return err
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == "Ready" {
			if cond.Status == "True" {
				return nil
			}
			return fmt.Errorf("node %s is not ready: %s: %s", name, cond.Reason, cond.Message)
		}
	}
	return fmt.Errorf("node %s has not reported yet", name)
}
