package pods

import (
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

// Pod is what is kept of a pod. It is never changed.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Deleting is when the pod is to be gone; zero while nobody wants it to.
	Deleting time.Time

	// What the pod's labels claim.
	Service, Revision       string
	ServiceUID, RevisionUID types.UID
	// Generation is the Configuration's that made the Revision; 0 if unknown.
	Generation int64

	// Grace is how long the pod may take to end. Serving sets it to the time-out of
	// the Revision's requests.
	Grace time.Duration
	// IP is empty until the pod has one.
	IP          string
	HostNetwork bool
	Phase       corev1.PodPhase
	Ready       bool
	// Annotations are those that declare a stateful cluster, Labels those by
	// which members are told apart.
	Annotations, Labels map[string]string
	Containers          []Container
	// Owner is the controller that the pod names.
	Owner Owner
}

// Container is what is known of a container's ends.
type Container struct {
	Name string
	// Restarts counts how often it was started again in this pod.
	Restarts int32
	// Last is the kubelet's reason for how it ended last, such as OOMKilled or Error; empty
	// if it never did.
	Last string
}

// OOMKilled says that the kernel ended it for want of memory.
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

// Over says that the pod's processes have ended, or that it never had any.
func (p *Pod) Over() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Declared is what the pod's own annotations declare; see v1alpha1.ParseStateful.
func (p *Pod) Declared() (v1alpha1.Stateful, bool, error) {
	return v1alpha1.ParseStateful(p.Annotations)
}

// stored is what the informer's cache holds in place of a pod.
type stored struct {
	metav1.ObjectMeta
	pod *Pod
}

// GetObjectKind and DeepCopyObject make it a runtime.Object, as caches expect.
func (*stored) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the same: what is stored is never changed.
func (s *stored) DeepCopyObject() runtime.Object { return s }

// ProtoActor begins the labels that protoactor-go puts on the pods of members.
const ProtoActor = "cluster.proto.actor/"

func projected(o *corev1.Pod) *Pod {
	p := &Pod{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		Service: o.Labels[serving.ServiceLabelKey], ServiceUID: types.UID(o.Labels[serving.ServiceUIDLabelKey]),
		Revision: o.Labels[serving.RevisionLabelKey], RevisionUID: types.UID(o.Labels[serving.RevisionUID]),
		IP: o.Status.PodIP, HostNetwork: o.Spec.HostNetwork, Phase: o.Status.Phase,
		Annotations: prefixed(o.Annotations, v1alpha1.StatefulPrefix),
		Labels:      prefixed(o.Labels, ProtoActor),
		Owner:       ownerOf(o),
	}
	// A label that is no number orders nothing.
	if n, err := strconv.ParseInt(o.Labels[serving.ConfigurationGenerationLabelKey], 10, 64); err == nil {
		p.Generation = n
	}
	if s := o.Spec.TerminationGracePeriodSeconds; s != nil {
		p.Grace = time.Duration(*s) * time.Second
	}
	if o.DeletionTimestamp != nil {
		p.Deleting = o.DeletionTimestamp.Time
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodReady {
			p.Ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, c := range o.Status.ContainerStatuses {
		kept := Container{Name: c.Name, Restarts: c.RestartCount}
		// A container that is not started again stands in State instead.
		for _, t := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if t != nil {
				kept.Last = t.Reason
			}
		}
		p.Containers = append(p.Containers, kept)
	}
	return p
}

func ownerOf(o metav1.Object) Owner {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
	}
	return Owner{}
}

// prefixed keeps of annotations or labels those with a prefix.
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
