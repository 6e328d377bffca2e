// SPDX-License-Identifier: Apache-2.0

// Package sidecar puts the sidecar of clients/sidecar, or another one that the installation names, into the pods of
// Revisions that declare it.
//
// Its invariant: a pod is changed completely or not at all, and one that has the sidecar is not changed again.
package sidecar

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"knative.dev/serving/pkg/apis/serving"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Container is the name of the sidecar in a pod.
const Container = v1alpha1.SidecarContainer

const (
	queueProxy = "queue-proxy"
	// userPort is the name that Serving gives to the port of the container that handles requests.
	userPort = "user-port"
	// queueAdmin and queueDrain are where queue-proxy waits until it has drained.
	queueAdmin = 8022
	queueDrain = "/wait-for-drain"

	drain  = "/drain"
	volume = "stateful-sidecar"
	mounts = "/var/run/secrets/placement.knative-cdevents.dev"
	// audience is that of the tokens with which the controller serves a plan.
	audience    = "placement.knative-cdevents.dev"
	tokenFor    = 3600
	authorities = "ca.crt"
)

// Names of environment variables of queue-proxy.
const (
	portVariable     = "USER_PORT"
	probeVariable    = "SERVING_READINESS_PROBE"
	manyVariable     = "ENABLE_MULTI_CONTAINER_PROBES"
	addressVariable  = "SERVING_POD_IP"
	timeoutVariable  = "REVISION_TIMEOUT_SECONDS"
	parallelVariable = "CONTAINER_CONCURRENCY"
)

// Settings are those of an installation.
type Settings struct {
	// Image of the sidecar.
	Image string
	// ControllerURL is where members read the plan; empty: the sidecar's default.
	ControllerURL string
	// Authorities is a ConfigMap in the namespace of the pods that has the certificate authorities of an https
	// ControllerURL, with the key ca.crt; empty: those of the sidecar's image.
	Authorities string
	// RestartTogether: all containers restart if the sidecar does. It needs Kubernetes with the feature
	// RestartAllContainersOnContainerExits; without it, a restarted sidecar waits before it owns anything.
	RestartTogether bool
	// QueueProxyImage is that of cmd/queue-proxy; empty: the sidecar cannot be a part of queue-proxy.
	QueueProxyImage string
	// ServingVersion is that of Knative Serving in the cluster, such as 1.23.0. It is only needed for QueueProxyImage.
	ServingVersion string
	// Proxies are the sidecars of ConfigMap config-sidecars.
	Proxies Proxies
}

// Inject puts the sidecar into a pod that Serving made. The pod is not changed if there is an error, which says what is
// wrong with which Service. A pod that has the sidecar stays as it is.
func Inject(pod *corev1.Pod, s Settings) error {
	changed := pod.DeepCopy()
	if err := inject(changed, s); err != nil {
		return fmt.Errorf("the sidecar of Service %s/%s (Revision %s): %w", pod.Namespace,
			cmp.Or(pod.Labels[serving.ServiceLabelKey], "without a name"), pod.Labels[serving.RevisionLabelKey], err)
	}
	*pod = *changed
	return nil
}

func inject(pod *corev1.Pod, s Settings) error {
	declared, err := declaration(pod)
	if err != nil {
		return err
	}
	queue := containerOf(pod, func(c *corev1.Container) bool { return c.Name == queueProxy })
	user := containerOf(pod, func(c *corev1.Container) bool { return c.Name != queueProxy && portOf(c) != 0 })
	if queue == nil || user == nil {
		return fmt.Errorf("the pod has no container %s, or none with a port named %s; only pods that Knative Serving makes "+
			"can have the sidecar", queueProxy, userPort)
	}
	port := portOf(user)
	if declared.Proxy != "" {
		p, err := s.Proxies.Named(declared.Proxy)
		if err != nil {
			return err
		}
		return p.inject(pod, queue, user, port)
	}
	if err := v1alpha1.CheckApplicationPort(int(port)); err != nil {
		return fmt.Errorf("container %s: %w", user.Name, err)
	}
	if declared.Sidecar.InQueueProxy {
		return injectIntoQueueProxy(pod, declared, s, queue, user, port)
	}
	entry, named := strconv.Itoa(v1alpha1.SidecarPort), has(pod.Spec.InitContainers, Container)
	if named && variable(queue, portVariable) == entry {
		return nil
	}
	if err := onlySidecar(queue, user); err != nil {
		return err
	}
	if named {
		return fmt.Errorf("the template has an init container named %s; give it another name", Container)
	}
	if err := attach(pod, s, queue, user); err != nil {
		return err
	}
	// After the init containers of the template, which run before the container does. The pod becomes a member when the
	// container accepts connections.
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(declared, s, queue, port))
	setVariable(queue, portVariable, entry)
	return nil
}

// onlySidecar returns an error if something else is between queue-proxy and the container already.
func onlySidecar(queue, user *corev1.Container) error {
	if enters, port := variable(queue, portVariable), portOf(user); enters != strconv.Itoa(int(port)) {
		return fmt.Errorf("container %s sends requests to port %q, but container %s listens at %d; is there another sidecar? "+
			"Only one can be injected", queueProxy, enters, user.Name, port)
	}
	return nil
}

// attach does what both forms of our sidecar need: its token, readiness and draining.
func attach(pod *corev1.Pod, s Settings, queue, user *corev1.Container) error {
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) {
		return fmt.Errorf("the template has a volume named %s; give it another name", volume)
	}
	if err := awaitSidecar(queue, v1alpha1.SidecarManagementPort, "/readyz"); err != nil {
		return err
	}
	if err := drainBySidecar(pod, user.Name); err != nil {
		return err
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, tokens(s))
	return nil
}

func has(all []corev1.Container, name string) bool {
	return slices.ContainsFunc(all, func(c corev1.Container) bool { return c.Name == name })
}

// declaration returns what the pod declares.
func declaration(pod *corev1.Pod) (v1alpha1.Stateful, error) {
	declared, _, err := v1alpha1.ParseStateful(pod.Annotations)
	switch {
	case err != nil:
		return declared, err //nolint:wrapcheck // complete
	case declared.Proxy != "":
		return declared, nil // what such a sidecar needs, nobody knows here
	case declared.Sidecar == nil:
		return declared, fmt.Errorf("annotation %s is %q; it must be %s", v1alpha1.AnnotationRuntime, declared.Runtime,
			v1alpha1.RuntimeSidecar)
	case pod.Labels[serving.ServiceLabelKey] == "":
		return declared, fmt.Errorf("its Configuration %s belongs to no Knative Service; the members of a cluster are "+
			"the pods of a Service, so make one", pod.Labels[serving.ConfigurationLabelKey])
	case pod.Spec.HostNetwork:
		return declared, errors.New("the pod has the network of its node (hostNetwork), where members of other pods have " +
			"the same ports; remove it")
	}
	return declared, nil
}

func containerOf(pod *corev1.Pod, is func(*corev1.Container) bool) *corev1.Container {
	for i := range pod.Spec.Containers {
		if is(&pod.Spec.Containers[i]) {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// portOf returns where a container handles requests; 0 if it does not.
func portOf(c *corev1.Container) int32 {
	for _, p := range c.Ports {
		if p.Name == userPort {
			return p.ContainerPort
		}
	}
	return 0
}

func variable(c *corev1.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

func setVariable(c *corev1.Container, name, value string) {
	for i := range c.Env {
		if c.Env[i].Name == name {
			c.Env[i] = corev1.EnvVar{Name: name, Value: value}
			return
		}
	}
}

// awaitSidecar makes queue-proxy ready only if the sidecar is, too: the activator asks queue-proxy, not Kubernetes.
//
// A probe of queue-proxy has a host, and the sidecar listens at the address of the pod, which only kubelet knows. It
// replaces $(SERVING_POD_IP) if that variable comes first. Without a period, queue-proxy asks every 50 ms, as it asks
// the container.
func awaitSidecar(queue *corev1.Container, port int32, path string) error {
	at := func(name string) int {
		return slices.IndexFunc(queue.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	}
	if address, probe := at(addressVariable), at(probeVariable); address < 0 || probe < address || at(manyVariable) < 0 {
		return fmt.Errorf("%s of this version of Knative Serving cannot probe the sidecar: it has not the variables %s, %s and %s, "+
			"in this order; Serving 1.23 has them", queueProxy, addressVariable, probeVariable, manyVariable)
	}
	probes := []json.RawMessage{}
	given := variable(queue, probeVariable)
	if variable(queue, manyVariable) == "true" {
		if err := json.Unmarshal([]byte(cmp.Or(given, "[]")), &probes); err != nil {
			return fmt.Errorf("reading %s of %s: %w", probeVariable, queueProxy, err)
		}
	} else if given != "" {
		probes = append(probes, json.RawMessage(given))
	}
	probes = slices.DeleteFunc(probes, func(p json.RawMessage) bool { return bytes.Equal(p, []byte("null")) })
	ours, err := json.Marshal(corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: "$(" + addressVariable + ")", Port: intstr.FromInt32(port), Path: path, Scheme: corev1.URISchemeHTTP,
		}},
		SuccessThreshold: 1,
	})
	if err != nil {
		return fmt.Errorf("making a probe: %w", err)
	}
	all, err := json.Marshal(append(probes, ours))
	if err != nil {
		return fmt.Errorf("adding a probe to %s of %s: %w", probeVariable, queueProxy, err)
	}
	setVariable(queue, probeVariable, string(all))
	setVariable(queue, manyVariable, "true")
	return nil
}

// drainBySidecar makes the containers of the template end after the sidecar has drained, which waits for queue-proxy.
func drainBySidecar(pod *corev1.Pod, user string) error {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		stop := (*corev1.LifecycleHandler)(nil)
		if c.Lifecycle != nil {
			stop = c.Lifecycle.PreStop
		}
		switch {
		case c.Name == queueProxy:
		case waits(stop):
			// Serving shares one between containers.
			c.Lifecycle = c.Lifecycle.DeepCopy()
			c.Lifecycle.PreStop.HTTPGet.Port = intstr.FromInt32(v1alpha1.SidecarManagementPort)
			c.Lifecycle.PreStop.HTTPGet.Path = drain
		case c.Name == user:
			return fmt.Errorf("the preStop of container %s is not that of Knative Serving (GET :%d%s); something else changes "+
				"the pods of this namespace, and the container would end before its requests", c.Name, queueAdmin, queueDrain)
		}
	}
	return nil
}

// waits reports whether a preStop is that of Serving.
func waits(stop *corev1.LifecycleHandler) bool {
	if stop == nil || stop.HTTPGet == nil {
		return false
	}
	return stop.HTTPGet.Port.IntValue() == queueAdmin && stop.HTTPGet.Path == queueDrain
}

func container(d v1alpha1.Stateful, s Settings, queue *corev1.Container, port int32) corev1.Container {
	always, no, yes := corev1.ContainerRestartPolicyAlways, false, true
	field := func(name, path string) corev1.EnvVar {
		from := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
		return corev1.EnvVar{Name: name, ValueFrom: from}
	}
	env := []corev1.EnvVar{
		field("STATEFUL_POD_IP", "status.podIP"),
		field("STATEFUL_NAMESPACE", "metadata.namespace"),
		field("K_SERVICE", "metadata.labels['"+serving.ServiceLabelKey+"']"),
	}
	set := func(name, value string) {
		if value != "" {
			// Kubelet would replace $(NAME).
			env = append(env, corev1.EnvVar{Name: "STATEFUL_" + name, Value: strings.ReplaceAll(value, "$", "$$")})
		}
	}
	set("KEY", d.Sidecar.Key)
	set("APPLICATION_PORT", strconv.Itoa(int(port)))
	set("SHARDS", strconv.Itoa(d.Shards))
	set("ENTITY_TYPE", d.EntityTypes[0])
	set("PATIENCE", d.Sidecar.Patience.String())
	set("STRICT", strconv.FormatBool(d.Sidecar.Strict))
	set("HOOKS", strconv.FormatBool(d.Sidecar.Hooks))
	set("CONTAINER_CONCURRENCY", variable(queue, parallelVariable))
	if seconds := variable(queue, timeoutVariable); seconds != "" && seconds != "0" {
		set("REQUEST_TIMEOUT", seconds+"s")
	}
	set("CONTROLLER_URL", s.ControllerURL)
	if s.Authorities != "" {
		set("CA_FILE", mounts+"/"+authorities)
	}
	var rules []corev1.ContainerRestartRule
	if s.RestartTogether {
		set("RESTART_TOGETHER", "true")
		rules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0},
			},
		}}
	}
	return corev1.Container{
		Name: Container, Image: s.Image, Env: env, RestartPolicy: &always, RestartPolicyRules: rules,
		VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: mounts, ReadOnly: true}},
		// It has no startup probe: the container would wait a second for it, and requests wait for /readyz anyway.
		Resources: d.Sidecar.Resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// tokens is mounted in the sidecar only: the application never sees them.
func tokens(s Settings) corev1.Volume {
	expires := int64(tokenFor)
	sources := []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Audience: audience, ExpirationSeconds: &expires, Path: "token",
	}}}
	if s.Authorities != "" {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.Authorities},
			Items:                []corev1.KeyToPath{{Key: authorities, Path: authorities}},
		}})
	}
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources},
	}}
}
