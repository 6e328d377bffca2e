// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/serving"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Pod is the projection of a pod that is cached. It is immutable.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Deleting is the pod's deletion deadline; zero while it is not being deleted.
	Deleting time.Time

	// What the pod's labels claim.
	Service, Revision       string
	ServiceUID, RevisionUID types.UID
	// Generation is the Configuration generation of the Revision; 0 if unknown.
	Generation int64

	// Grace is the pod's termination grace period. Serving sets it to the request
	// time-out of the Revision.
	Grace time.Duration
	// IP is empty until the pod has one.
	IP          string
	HostNetwork bool
	Phase       corev1.PodPhase
	// Reason is why the kubelet ended or rejected the pod; usually empty.
	Reason string
	// Began is when the kubelet accepted the pod; zero before that.
	Began time.Time
	// Disrupted means that Kubernetes is about to end the pod, or has ended it, for a reason that lies outside of it: a
	// drained node, preemption, a taint, a node that shuts down or is short of resources.
	Disrupted bool
	Ready     bool
	// ReadySince is when it last became ready; zero if it is not.
	ReadySince time.Time
	// Annotations declare a stateful cluster. Labels tell its members apart.
	Annotations, Labels map[string]string
	Containers          []Container
	// Sidecar is the image of the sidecar, which is a container or in queue-proxy; empty if the pod has none.
	Sidecar string
	// SidecarID is the runtime's ID of that container, and another one after each restart. It is empty before the first
	// start.
	SidecarID string
	// Owner is the controller that the pod references.
	Owner Owner
}

// Container is the history of a container.
type Container struct {
	Name string
	// ID is the runtime's, and another one after each restart. It is empty before the first start.
	ID string
	// Restarts counts the restarts of the container in this pod.
	Restarts int32
	// Last is the kubelet's reason for the last termination, such as OOMKilled or Error;
	// empty if there was none.
	Last string
	// Started is when its present process started; zero if none runs.
	Started time.Time
	// CrashLoop means that the kubelet waits before it starts the container again, because it has ended too often.
	CrashLoop bool
}

// crashLoopBackOff is the kubelet's reason for that wait.
const crashLoopBackOff = "CrashLoopBackOff"

// OOMKilled reports whether the kernel killed it because it ran out of memory.
func (c Container) OOMKilled() bool { return c.Last == "OOMKilled" }

// Owner is the object that controls another one.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// Key names the Service that the pod claims to belong to.
func (p *Pod) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Service}
}

// Over reports whether the pod's processes have ended, or never started.
func (p *Pod) Over() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Declared parses the pod's stateful annotations; see v1alpha1.ParseStateful.
func (p *Pod) Declared() (v1alpha1.Stateful, bool, error) {
	return v1alpha1.ParseStateful(p.Annotations)
}

// stored wraps a Pod for the informer's cache.
type stored struct {
	metav1.ObjectMeta
	pod *Pod
}

// GetObjectKind and DeepCopyObject implement runtime.Object, which caches require.
func (*stored) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the same object, because it is immutable.
func (s *stored) DeepCopyObject() runtime.Object { return s }

// ProtoActor is the prefix of the labels that protoactor-go puts on its members' pods.
const ProtoActor = "cluster.proto.actor/"

func projected(o *corev1.Pod) *Pod {
	p := &Pod{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		Service: o.Labels[serving.ServiceLabelKey], ServiceUID: types.UID(o.Labels[serving.ServiceUIDLabelKey]),
		Revision: o.Labels[serving.RevisionLabelKey], RevisionUID: types.UID(o.Labels[serving.RevisionUID]),
		IP: o.Status.PodIP, HostNetwork: o.Spec.HostNetwork, Phase: o.Status.Phase, Reason: o.Status.Reason,
		Annotations: prefixed(o.Annotations, v1alpha1.StatefulPrefix),
		Labels:      prefixed(o.Labels, ProtoActor),
		Owner:       ownerOf(o),
		Generation:  generationOf(o),
	}
	p.Sidecar, p.SidecarID = sidecarOf(o)
	if s := o.Spec.TerminationGracePeriodSeconds; s != nil {
		p.Grace = time.Duration(*s) * time.Second
	}
	if o.DeletionTimestamp != nil {
		p.Deleting = o.DeletionTimestamp.Time
	}
	if o.Status.StartTime != nil {
		p.Began = o.Status.StartTime.Time
	}
	for _, c := range o.Status.Conditions {
		is := c.Status == corev1.ConditionTrue
		switch c.Type {
		case corev1.PodReady:
			if p.Ready = is; is {
				p.ReadySince = c.LastTransitionTime.Time
			}
		case corev1.DisruptionTarget:
			p.Disrupted = is
		}
	}
	for _, c := range o.Status.ContainerStatuses {
		kept := Container{Name: c.Name, ID: c.ContainerID, Restarts: c.RestartCount}
		// A container that is not restarted has its last termination in State.
		for _, t := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if t != nil {
				kept.Last = t.Reason
			}
		}
		if running := c.State.Running; running != nil {
			kept.Started = running.StartedAt.Time
		}
		kept.CrashLoop = c.State.Waiting != nil && c.State.Waiting.Reason == crashLoopBackOff
		p.Containers = append(p.Containers, kept)
	}
	return p
}

// sidecarOf returns the image and the ID of the container that is the sidecar, or has it in it.
func sidecarOf(o *corev1.Pod) (image, id string) {
	for _, c := range o.Spec.InitContainers {
		if c.Name == v1alpha1.SidecarContainer {
			return c.Image, idOf(c.Name, o.Status.InitContainerStatuses)
		}
	}
	for _, c := range o.Spec.Containers {
		if c.Name == "queue-proxy" && slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "STATEFUL_KEY" }) {
			return c.Image, idOf(c.Name, o.Status.ContainerStatuses)
		}
	}
	return "", ""
}

func idOf(container string, all []corev1.ContainerStatus) string {
	for _, c := range all {
		if c.Name == container {
			return c.ContainerID
		}
	}
	return ""
}

// generationOf returns the Configuration's generation from the label of a Revision or its pod; 0 if it is not a number.
func generationOf(o metav1.Object) int64 {
	n, err := strconv.ParseInt(o.GetLabels()[serving.ConfigurationGenerationLabelKey], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func ownerOf(o metav1.Object) Owner {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
	}
	return Owner{}
}

// prefixed returns the annotations or labels with a prefix.
func prefixed(all map[string]string, prefix string) map[string]string {
	var out map[string]string
	for name, v := range all {
		if strings.HasPrefix(name, prefix) {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = v
		}
	}
	return out
}
