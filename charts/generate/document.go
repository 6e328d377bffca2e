// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is a manifest that becomes a template. err is what was not found in it.
type document struct {
	lines []string
	err   error
}

// valuesOf are the values of each Deployment.
var valuesOf = map[string]string{
	"controller": "$.Values.controller", "webhook": "$.Values.webhook", "sidecar-injector": "$.Values.sidecar",
}

// imageOf are the values of the images.
var imageOf = map[string]string{
	"cmd/controller": "controller", "cmd/webhook": "webhook", "cmd/injector": "sidecarInjector",
	"clients/sidecar/cmd/sidecar": "sidecar", "cmd/queue-proxy": "queueProxy", "cmd/traffic": "traffic",
}

// configOf are the values that are added to the ConfigMaps.
var configOf = map[string]string{
	"config-cdevents": "cdevents", "config-canary": "canary", "config-logging": "logging",
	"config-observability": "observability", "config-leader-election": "leaderElection", "config-sidecars": "sidecars",
}

// definition lets users keep definitions, and with them all objects, when the release is uninstalled. Helm never
// updates what is in a folder crds; these are templates, so that an upgrade of the release upgrades them.
func (d *document) definition() {
	const when, keep, end = "{{- if $.Values.crds.keep }}", "    helm.sh/resource-policy: keep", "{{- end }}"
	if from, _ := d.block("  annotations:"); from >= 0 {
		d.after("  annotations:", "    "+when, keep, "    "+end)
	} else {
		d.after("metadata:", "  "+when, "  annotations:", keep, "  "+end)
	}
	d.lines = slices.Concat([]string{"{{- if $.Values.crds.install }}"}, d.lines, []string{"{{- end }}"})
}

func (d *document) deployment() {
	values, ok := valuesOf[d.name()]
	if !ok {
		d.failed("no values are known for Deployment %s", d.name())
		return
	}
	expression := func(format string) string { return strings.ReplaceAll(format, "VALUES", values) }
	d.replace("  replicas:", expression("  replicas: {{ VALUES.replicas }}"))
	included := func(name string, indent int) string {
		return strings.Repeat(" ", indent) + expression(`{{- with include "knative-cdevents.`+name+
			`" (dict "root" $ "of" VALUES) }}{{ . | nindent `+strconv.Itoa(indent)+` }}{{ end }}`)
	}
	if d.name() == "controller" {
		// The number of buckets takes effect with a restart. Replicas with different ones would lead the same Services.
		d.before("    spec:", "      annotations:", `        {{- merge (dict "checksum/config-leader-election" `+
			`(list ($.Values.config.leaderElection | default dict) (min 10 (int $.Values.controller.replicas)) | toJson | sha256sum)) `+
			`($.Values.controller.podAnnotations | default dict) | toYaml | nindent 8 }}`)
	} else {
		d.before("    spec:", expression("      {{- with VALUES.podAnnotations }}"),
			"      annotations: {{- toYaml . | nindent 8 }}", "      {{- end }}")
	}
	d.before("      serviceAccountName:", included("scheduling", 6))
	d.spread(values)
	d.replace("          resources:", expression("          resources: {{- toYaml VALUES.resources | nindent 12 }}"))
	d.env(values, included("env", 12))
	d.metricsTLS()
	if d.name() == "sidecar-injector" {
		d.setting("CONTROLLER_URL", `{{ $.Values.sidecar.controllerURL | `+
			`default (include "knative-cdevents.controllerURL" $) | quote }}`)
		d.setting("CONTROLLER_CA_CONFIGMAP", "{{ $.Values.sidecar.controllerCAConfigMap | quote }}")
		d.setting("RESTART_TOGETHER", "{{ $.Values.sidecar.restartTogether | quote }}")
	}
	d.image([]string{
		"          {{- with $.Values.image.pullPolicy }}", "          imagePullPolicy: {{ . }}", "          {{- end }}",
	})
}

// spread keeps the constraints of the manifest unless others are given.
func (d *document) spread(values string) {
	from, to := d.block("      topologySpreadConstraints:")
	if from < 0 {
		return
	}
	d.lines = slices.Insert(d.lines, to,
		"      {{- else }}",
		"      topologySpreadConstraints: {{- toYaml "+values+".topologySpreadConstraints | nindent 8 }}",
		"      {{- end }}")
	d.lines = slices.Insert(d.lines, from,
		`      {{- if kindIs "invalid" (index `+values+` "topologySpreadConstraints") }}`)
}

// env adds the user's variables. One that the manifest has, too, replaces it: no name may occur twice.
func (d *document) env(values, more string) {
	d.replaceable("          env:", regexp.MustCompile(`^            - name: (\S+)$`), `has %q $given`,
		"            {{- $given := list }}{{ range "+values+".env }}{{ $given = append $given .name }}{{ end }}", more)
}

// labels adds the user's labels. One that the manifest has, too, replaces it.
func (d *document) labels(given string) {
	d.replaceable("  labels:", regexp.MustCompile(`^    (\S+): .+$`), `hasKey (`+given+` | default dict) %q`,
		"    {{- with "+given+" }}{{ toYaml . | nindent 4 }}{{ end }}")
}

// replaceable leaves out each entry of a field for which a condition with its name holds, and adds lines before all of
// them. An entry begins with a line that matches, and has all that is indented deeper.
func (d *document) replaceable(field string, entry *regexp.Regexp, given string, lines ...string) {
	from, to := d.block(field)
	if from < 0 {
		d.failed("%s has no field %q", d.name(), field)
		return
	}
	out := slices.Concat(d.lines[:from+1], lines)
	indent, deeper := "", ""
	for _, line := range d.lines[from+1 : to] {
		if deeper != "" && line != "" && !strings.HasPrefix(line, deeper) {
			out, deeper = append(out, indent+"{{- end }}"), ""
		}
		if found := entry.FindStringSubmatch(line); found != nil {
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
			out, deeper = append(out, indent+"{{- if not ("+fmt.Sprintf(given, found[1])+") }}"), indent+" "
		}
		out = append(out, line)
	}
	if deeper != "" {
		out = append(out, indent+"{{- end }}")
	}
	d.lines = append(out, d.lines[to:]...)
}

// metricsTLS mounts the certificate of the metrics.
func (d *document) metricsTLS() {
	const when, end = "{{- if $.Values.metrics.tls.secretName }}", "{{- end }}"
	mount := []string{
		"            - name: metrics-tls", "              mountPath: /etc/metrics-tls", "              readOnly: true",
	}
	volume := []string{
		"        - name: metrics-tls", "          secret:",
		"            secretName: {{ $.Values.metrics.tls.secretName }}",
	}
	if from, _ := d.block("          volumeMounts:"); from >= 0 {
		d.after("          volumeMounts:",
			slices.Concat([]string{"            " + when}, mount, []string{"            " + end})...)
		d.after("      volumes:", slices.Concat([]string{"        " + when}, volume, []string{"        " + end})...)
		return
	}
	d.before("          securityContext:",
		slices.Concat([]string{"          " + when, "          volumeMounts:"}, mount, []string{"          " + end})...)
	d.lines = slices.Concat(d.lines, []string{"      " + when, "      volumes:"}, volume, []string{"      " + end})
}

// setting replaces the value of an environment variable.
func (d *document) setting(name, value string) {
	at := slices.Index(d.lines, "            - name: "+name)
	if at < 0 || !strings.HasPrefix(d.lines[at+1], "              value:") {
		d.failed("%s has no variable %s", d.name(), name)
		return
	}
	d.lines[at+1] = "              value: " + value
}

var reference = regexp.MustCompile(`^( *)(- )?(image|value): ko://github\.com/knative-cdevents/knative-cdevents/(\S+)$`)

// image replaces the references of ko. The lines of a policy follow those of a container.
func (d *document) image(policy []string) {
	var out []string
	for _, line := range d.lines {
		found := reference.FindStringSubmatch(line)
		if found == nil {
			out = append(out, line)
			continue
		}
		value, ok := imageOf[found[4]]
		if !ok {
			d.failed("no value is known for image %s", found[4])
		}
		out = append(out, fmt.Sprintf(`%s%s%s: {{ include "knative-cdevents.image" (list $ $.Values.images.%s) }}`,
			found[1], found[2], found[3], value))
		if found[3] == "image" {
			out = append(out, policy...)
		}
	}
	d.lines = out
}

// configMap adds the values to the data. One that the manifest has, too, replaces it; _example stays.
func (d *document) configMap() {
	value, ok := configOf[d.name()]
	if !ok { // a dashboard
		d.labels("$.Values.monitoring.dashboards.labels")
		return
	}
	given := "($.Values.config." + value + " | default dict)"
	d.replaceable("data:", regexp.MustCompile(`^  ([^ #_][^:]*):`), "hasKey "+given+" %q",
		"  {{- with "+given+" }}{{ toYaml . | nindent 2 }}{{ end }}")
	if from, _ := d.block("  buckets:"); from >= 0 {
		d.lines[from] = "  buckets: {{ min 10 (int $.Values.controller.replicas) | max 1 | quote }}"
	}
}

// podMonitor adds the user's fields to the endpoints. One that the manifest has, too, replaces it, apart from the port.
func (d *document) podMonitor() {
	d.labels("$.Values.monitoring.podMonitors.labels")
	if d.name() == "doorbell" || d.name() == "core" {
		return
	}
	const given = "($.Values.monitoring.podMonitors.endpoint | default dict)"
	var out []string
	for _, line := range d.lines {
		switch {
		case strings.HasPrefix(line, "    - port:"):
			out = append(out, line, `      {{- with omit `+given+` "port" }}{{ toYaml . | nindent 6 }}{{ end }}`)
		case strings.HasPrefix(line, "      interval:"):
			out = append(out, "      {{- if not (hasKey "+given+` "interval") }}`, line, "      {{- end }}")
		default:
			out = append(out, line)
		}
	}
	d.lines = out
}

// networkPolicy adds the ports of the API server of other clusters, and those of sinks outside of the cluster.
func (d *document) networkPolicy() {
	var out []string
	for _, line := range d.lines {
		out = append(out, line)
		if line == "        - {port: 6443, protocol: TCP}" {
			out = append(out, "        {{- range $.Values.networkPolicies.egressPorts }}",
				"        - {port: {{ . }}, protocol: TCP}", "        {{- end }}")
		}
	}
	d.lines = out
}

// name is that of the object.
func (d *document) name() string {
	for _, line := range d.lines {
		if name, ok := strings.CutPrefix(line, "  name: "); ok {
			return name
		}
	}
	d.failed("a document has no name: %.100q", strings.Join(d.lines, "\n"))
	return ""
}

// block returns where the lines of a field begin and end. A field is given with its indent.
func (d *document) block(field string) (from, to int) {
	from = slices.IndexFunc(d.lines, func(line string) bool { return line == field || strings.HasPrefix(line, field+" ") })
	if from < 0 {
		return -1, -1
	}
	inner := strings.Repeat(" ", len(field)-len(strings.TrimLeft(field, " "))+1)
	for to = from + 1; to < len(d.lines) && (d.lines[to] == "" || strings.HasPrefix(d.lines[to], inner)); to++ {
	}
	return from, to
}

func (d *document) after(field string, lines ...string) {
	if from, _ := d.block(field); from < 0 {
		d.failed("%s has no field %q", d.name(), field)
	} else {
		d.lines = slices.Insert(d.lines, from+1, lines...)
	}
}

func (d *document) before(field string, lines ...string) {
	if from, _ := d.block(field); from < 0 {
		d.failed("%s has no field %q", d.name(), field)
	} else {
		d.lines = slices.Insert(d.lines, from, lines...)
	}
}

func (d *document) replace(field, with string) {
	from, to := d.block(field)
	if from < 0 {
		d.failed("%s has no field %q", d.name(), field)
		return
	}
	// A comment before the next field belongs to that.
	for to > from+1 && strings.HasPrefix(strings.TrimSpace(d.lines[to-1]), "#") {
		to--
	}
	d.lines = slices.Replace(d.lines, from, to, with)
}

func (d *document) failed(format string, args ...any) {
	d.err = errors.Join(d.err, fmt.Errorf(format, args...))
}
