// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// rule is a mistake in a spec. The API server refuses it without the webhook, and so does our own validation, by which a
// gate in a CustomRun is checked.
type rule struct {
	// spec is a part of a spec in JSON, or a whole one.
	spec string
	// where is the field that both name.
	where string
	// both is what both say. ours is what only our own validation says, where the API server has words of its own.
	both, ours string
	// unsaid is why the schema cannot say it, and schemaOnly why only the schema does.
	unsaid, schemaOnly string
}

// checkRules lets an API server and our own validation refuse each of them.
func checkRules(t *testing.T, api dynamic.ResourceInterface, rules map[string]rule, object func(string) *unstructured.Unstructured,
	validate func(*testing.T, *unstructured.Unstructured) error,
) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		_, err := api.Create(t.Context(), object(r.spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case r.unsaid != "":
			if err != nil {
				t.Errorf("%s: the schema can say it after all: %v", name, err)
			}
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), r.where) || !strings.Contains(err.Error(), r.both):
			t.Errorf("%s: want an error of the API server at %s with %q, got %v", name, r.where, r.both, err)
		}
		err = validate(t, object(r.spec))
		if r.schemaOnly != "" {
			if err != nil {
				t.Errorf("%s: we say it, too: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), r.where) || !strings.Contains(err.Error(), r.both) || !strings.Contains(err.Error(), r.ours) {
			t.Errorf("%s: want an error of ours at %s with %q, got %v", name, r.where, r.both+r.ours, err)
		}
	}
}

// checkRight lets both accept what is right.
func checkRight(t *testing.T, api dynamic.ResourceInterface, specs []string, object func(string) *unstructured.Unstructured,
	validate func(*testing.T, *unstructured.Unstructured) error,
) {
	t.Helper()
	for _, spec := range specs {
		if _, err := api.Create(t.Context(), object(spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if err := validate(t, object(spec)); err != nil {
			t.Errorf("%s: ours: %v", spec, err)
		}
	}
}

func decoded(t *testing.T, from *unstructured.Unstructured, into any) {
	t.Helper()
	raw, err := from.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func validateGate(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	var gate v1alpha1.CanaryGate
	decoded(t, object, &gate)
	if err := gate.Validate(t.Context()); err != nil {
		return err
	}
	return nil
}

// partOf completes a part of a spec.
func partOf(rest string) func(string) *unstructured.Unstructured {
	return func(spec string) *unstructured.Unstructured {
		if !strings.HasPrefix(spec, "{") {
			spec = "{" + rest + "," + spec + "}"
		}
		return gateOf(spec)
	}
}

// metrics returns a spec with one more metric.
func metrics(m string) string { return `"metrics":[{"type":"EntryErrors"},` + m + `]` }

var gateRules = map[string]rule{
	"no template":           {spec: `"templateRef":{"name":""}`, where: "spec.templateRef.name", ours: "name of a ClusterCanaryGateTemplate"},
	"half a reference":      {spec: `"templateRef":{}`, where: "spec.templateRef.name", ours: "name of a ClusterCanaryGateTemplate"},
	"a path to a template":  {spec: `"templateRef":{"name":"shop/strict"}`, where: "spec.templateRef.name", ours: "RFC 1123 subdomain"},
	"a long reference":      {spec: `"templateRef":{"name":"` + strings.Repeat("a", 254) + `"}`, where: "spec.templateRef.name", ours: "253"},
	"no service":            {spec: `{}`, where: "spec.service", ours: "name of a Knative Service"},
	"another's service":     {spec: `{"service":"shop/cart"}`, where: "spec.service", ours: "DNS-1035"},
	"a long service":        {spec: `{"service":"` + strings.Repeat("a", 64) + `"}`, where: "spec.service", ours: "63"},
	"capitals":              {spec: `"canary":"Cart-2"`, where: "spec.canary", ours: "DNS-1035"},
	"no name of a Revision": {spec: `"baseline":"cart_1"`, where: "spec.baseline", ours: "DNS-1035"},
	"the same":              {spec: `"canary":"cart-1","baseline":"cart-1"`, where: "spec.baseline", both: "two different Revisions"},
	"watch":                 {spec: `"watch":"yes"`, where: "spec.watch"},
	"half a run":            {spec: `"historyLimit":0.5`, where: "spec.historyLimit"},
	"less than none":        {spec: `"historyLimit":-1`, where: "spec.historyLimit", ours: "from 0 to 100"},
	"a long history":        {spec: `"historyLimit":101`, where: "spec.historyLimit", ours: "from 0 to 100"},

	"soon":                {spec: `"schedule":{"warmup":"soon"}`, where: "spec.schedule.warmup", ours: "is not a duration"},
	"a day":               {spec: `"schedule":{"timeout":"1d"}`, where: "spec.schedule.timeout", ours: "is not a duration"},
	"ISO 8601":            {spec: `"schedule":{"timeout":"PT20M"}`, where: "spec.schedule.timeout", ours: "90s, 2m or 1h30m"},
	"five and five":       {spec: `"schedule":{"interval":"5s5s"}`, where: "spec.schedule.interval", ours: "each of h, m, s and ms at most once"},
	"a bare fraction":     {spec: `"schedule":{"timeout":".5h"}`, where: "spec.schedule.timeout", ours: "is not a duration"},
	"microseconds":        {spec: `"schedule":{"interval":"5000000us"}`, where: "spec.schedule.interval", ours: "is not a duration"},
	"an empty duration":   {spec: `"schedule":{"warmup":""}`, where: "spec.schedule.warmup", ours: "is not a duration"},
	"a number":            {spec: `"schedule":{"warmup":5}`, where: "spec.schedule.warmup", ours: "is not a duration"},
	"no unit":             {spec: `"schedule":{"warmup":"50"}`, where: "spec.schedule.warmup", ours: "is not a duration"},
	"before the start":    {spec: `"schedule":{"warmup":"-5s"}`, where: "spec.schedule.warmup", ours: "from 0s"},
	"endless":             {spec: `"schedule":{"timeout":"99999999h"}`, where: "spec.schedule.timeout", ours: "is not a duration"},
	"a long warmup":       {spec: `"schedule":{"warmup":"168h1s"}`, where: "spec.schedule.warmup", both: "it must be a duration from 0s to 168h"},
	"hectic":              {spec: `"schedule":{"interval":"4999ms"}`, where: "spec.schedule.interval", both: "it must be a duration from 5s to 1h"},
	"rarely":              {spec: `"schedule":{"interval":"1h1s","timeout":"9h"}`, where: "spec.schedule.interval", both: "it must be a duration from 5s to 1h"},
	"a long minDuration":  {spec: `"schedule":{"minDuration":"169h"}`, where: "spec.schedule.minDuration", both: "it must be a duration from 0s to 168h"},
	"for ever":            {spec: `"schedule":{"timeout":"168h1s"}`, where: "spec.schedule.timeout", both: "it must be a duration from 5s to 168h"},
	"no time":             {spec: `"schedule":{"timeout":"2m"}`, where: "spec.schedule.timeout", both: "together; otherwise, no run can pass"},
	"nearly time":         {spec: `"schedule":{"timeout":"2m13s"}`, where: "spec.schedule.timeout", both: "together; otherwise, no run can pass"},
	"no time but warmup":  {spec: `"schedule":{"warmup":"28m"}`, where: "spec.schedule.timeout", both: "together; otherwise, no run can pass"},
	"no time but 3m":      {spec: `"schedule":{"minDuration":"57m","timeout":"1h"}`, where: "spec.schedule.timeout", both: "together; otherwise, no run can pass"},
	"no look":             {spec: `"schedule":{"interval":"30m"}`, where: "spec.schedule.interval", both: "otherwise, nothing is judged"},
	"no look after 3m":    {spec: `"schedule":{"interval":"57m","timeout":"1h"}`, where: "spec.schedule.interval", both: "otherwise, nothing is judged"},
	"no look with warmup": {spec: `"schedule":{"warmup":"29m45s","minDuration":"0s"}`, where: "spec.schedule.interval", both: "otherwise, nothing is judged"},

	"requests as text":   {spec: `"minimum":{"canaryRequests":"300"}`, where: "spec.minimum.canaryRequests"},
	"half a request":     {spec: `"minimum":{"canaryRequests":1.5}`, where: "spec.minimum.canaryRequests"},
	"more than a number": {spec: `"minimum":{"canaryRequests":1e30}`, where: "spec.minimum.canaryRequests"},
	"nothing is enough":  {spec: `"minimum":{"canaryRequests":0}`, where: "spec.minimum.canaryRequests", ours: "from 1 to"},
	"less than nothing":  {spec: `"minimum":{"baselineRequests":-1}`, where: "spec.minimum.baselineRequests", ours: "from 1 to"},
	"no shards":          {spec: `"minimum":{"shards":0}`, where: "spec.minimum.shards", ours: "from 1 to"},
	"too many shards":    {spec: `"minimum":{"shards":100001}`, where: "spec.minimum.shards", ours: "from 1 to"},

	"no metrics":      {spec: `"metrics":[]`, where: "spec.metrics", both: "at least one metric must be critical"},
	"eleven metrics":  {spec: `"metrics":[` + eleven() + `]`, where: "spec.metrics", ours: "at most 10 are allowed"},
	"no type":         {spec: metrics(`{"name":"a"}`), where: "spec.metrics[1].type", ours: "ErrorRate, EntryErrors, ClientErrors, SlowRequests, SlowerAnywhere"},
	"another type":    {spec: metrics(`{"type":"Requests"}`), where: "spec.metrics[1].type", ours: "SlowerAnywhere, Query"},
	"twice":           {spec: metrics(`{"type":"EntryErrors"}`), where: "spec.metrics", both: "it must be unique in the gate, and defaults to the type"},
	"the same name":   {spec: metrics(`{"type":"ErrorRate","name":"EntryErrors"}`), where: "spec.metrics", both: "it must be unique in the gate, and defaults to the type"},
	"no name":         {spec: metrics(`{"type":"ErrorRate","name":"a b"}`), where: "spec.metrics[1].name", ours: "alphanumeric"},
	"nothing decides": {spec: `"metrics":[{"type":"ErrorRate","dryRun":true},{"type":"SlowRequests","critical":false}]`, where: "spec.metrics", both: "at least one metric must be critical and not dryRun"},
	"between bounds":  {spec: metrics(`{"type":"SlowRequests","threshold":"300ms"}`), where: "spec.metrics[1].threshold", ours: "5ms 10ms"},
	"seconds":         {spec: metrics(`{"type":"SlowRequests","threshold":0.5}`), where: "spec.metrics[1].threshold", ours: "such as 500ms"},
	"a query of ours": {spec: metrics(`{"type":"Query"}`), where: "spec.metrics[1].query", both: "ask the operator"},
	"a free query":    {spec: metrics(`{"type":"Query","query":"sum(x)"}`), where: "spec.metrics[1].query", ours: "not a query"},
	"another's query": {spec: metrics(`{"type":"ErrorRate","query":"checkout"}`), where: "spec.metrics[1].query", both: "only metrics of type Query have the field query"},
	"errors are fast": {spec: metrics(`{"type":"ErrorRate","threshold":"500ms"}`), where: "spec.metrics[1].threshold", both: "only metrics of type SlowRequests have the field threshold"},
	"codes of errors": {spec: metrics(`{"type":"ErrorRate","ignoreCodes":[404]}`), where: "spec.metrics[1].ignoreCodes", both: "only metrics of type ClientErrors have the field ignoreCodes"},
	"a failure":       {spec: metrics(`{"type":"ClientErrors","ignoreCodes":[404,500]}`), where: "spec.metrics[1].ignoreCodes[1]", ours: "from 400 to 499"},
	"a code twice":    {spec: metrics(`{"type":"ClientErrors","ignoreCodes":[404,404]}`), where: "spec.metrics[1].ignoreCodes[1]", ours: "at most once"},
	"better is bad":   {spec: metrics(`{"type":"ErrorRate","maxOddsRatio":1}`), where: "spec.metrics[1].maxOddsRatio", ours: "more than 1"},
	"any odds":        {spec: metrics(`{"type":"ErrorRate","maxOddsRatio":101}`), where: "spec.metrics[1].maxOddsRatio", ours: "at most 100"},
	"percent":         {spec: metrics(`{"type":"ErrorRate","limit":2}`), where: "spec.metrics[1].limit", ours: "less than 1"},
	"100 %":           {spec: metrics(`{"type":"ErrorRate","limit":1}`), where: "spec.metrics[1].limit", ours: "less than 1"},
	"a low limit":     {spec: metrics(`{"type":"ErrorRate","limit":0.003}`), where: "spec.metrics[1].limit", both: "it must be more than negligible"},
	"limit negligible": {
		spec:  metrics(`{"type":"ErrorRate","limit":0.05,"negligible":0.05}`),
		where: "spec.metrics[1].limit", both: "it must be more than negligible",
	},
	"anywhere's limit": {spec: metrics(`{"type":"SlowerAnywhere","limit":0.1}`), where: "spec.metrics[1].limit", both: "metrics of type SlowerAnywhere have no limit"},
	"nothing matters":  {spec: metrics(`{"type":"ErrorRate","negligible":1}`), where: "spec.metrics[1].negligible", ours: "less than 1"},
	"all matters":      {spec: metrics(`{"type":"ErrorRate","negligible":0}`), where: "spec.metrics[1].negligible", ours: "more than 0"},
	"no weight":        {spec: metrics(`{"type":"ErrorRate","weight":0}`), where: "spec.metrics[1].weight", ours: "more than 0"},
	"all weight":       {spec: metrics(`{"type":"ErrorRate","weight":1001}`), where: "spec.metrics[1].weight", ours: "at most 1000"},
	"critical":         {spec: metrics(`{"type":"ErrorRate","critical":"no"}`), where: "spec.metrics[1].critical"},

	"too low is right":  {spec: `"exposure":{"minRatio":1}`, where: "spec.exposure.minRatio", ours: "less than 1"},
	"right is too high": {spec: `"exposure":{"maxRatio":1}`, where: "spec.exposure.maxRatio", ours: "more than 1"},
	"too high":          {spec: `"exposure":{"tooHigh":"Pass"}`, where: "spec.exposure.tooHigh", ours: "Inconclusive or Warn"},
	"too low":           {spec: `"exposure":{"tooLow":"Pass"}`, where: "spec.exposure.tooLow", ours: "Inconclusive or Warn"},
	"fails unknown":     {spec: `"withoutPast":"Fail"`, where: "spec.withoutPast", ours: "Pass or Warn"},
	"restarts":          {spec: `"limits":{"restarts":-1}`, where: "spec.limits.restarts", ours: "from 0"},
	"unaccounted":       {spec: `"limits":{"unaccountedRatio":1.01}`, where: "spec.limits.unaccountedRatio", ours: "at most 1"},
	"never wrong":       {spec: `"statistics":{"alpha":0}`, where: "spec.statistics.alpha", ours: "more than 0"},
	"mostly wrong":      {spec: `"statistics":{"beta":0.51}`, where: "spec.statistics.beta", ours: "at most 0.5"},
	"a ratio as score":  {spec: `"score":{"pass":0.9}`, where: "spec.score.pass", ours: "whole number"},
	"a warning ratio":   {spec: `"score":{"pass":1,"warn":0.75}`, where: "spec.score.warn", ours: "whole number"},
	"score":             {spec: `"score":{"pass":101}`, where: "spec.score.pass", ours: "whole number from 0 to 100"},
	"a negative score":  {spec: `"score":{"warn":-1}`, where: "spec.score.warn", ours: "whole number from 0 to 100"},
	"the lower one":     {spec: `"score":{"pass":9}`, where: "spec.score.warn", both: "it must not be more than pass"},
	"coverage":          {spec: `"score":{"minCoverage":50}`, where: "spec.score.minCoverage", ours: "at most 1"},
	"pass fails":        {spec: `"failOn":["Fail","Pass"]`, where: "spec.failOn[1]", ours: "Warn, Fail, Error, Inconclusive"},
	"fails twice":       {spec: `"failOn":["Fail","Fail"]`, where: "spec.failOn", both: "each at most once"},
	"not fail":          {spec: `"failOn":["Warn"]`, where: "spec.failOn", both: "it must contain Fail; otherwise, the gate stops nothing"},
	"never fails":       {spec: `"failOn":[]`, where: "spec.failOn", both: "it must contain Fail; otherwise, the gate stops nothing"},
}

func eleven() string {
	all := make([]string, 11)
	for i := range all {
		all[i] = fmt.Sprintf(`{"type":"ErrorRate","name":"m%d"}`, i)
	}
	return strings.Join(all, ",")
}

var rightGates = []string{
	`{"service":"cart"}`,
	`"canary":"cart-00002","baseline":"cart-00001"`,
	`"canary":"","baseline":""`,
	`"schedule":{"warmup":"0s","minDuration":"0s"}`,
	`"schedule":{"interval":"5s"}`,
	`"schedule":{"warmup":"0","interval":"0.5m","minDuration":"0","timeout":"1.5h"}`,
	`"schedule":{"warmup":"0.5h1.5m1.5s1.5ms","timeout":"1h0m0s"}`,
	`"schedule":{"timeout":"2m14s"}`,
	`"schedule":{"minDuration":"56m59s","timeout":"1h"}`,
	`"schedule":{"interval":"1h","timeout":"1h3m1s"}`,
	`"schedule":{"warmup":"29m44s","minDuration":"0s"}`,
	`"schedule":{"warmup":"1h","minDuration":"1m30.5s","timeout":"168h"}`,
	`"historyLimit":100,"suspend":true`,
	`"templateRef":{"name":"shop.strict-1"}`,
	metrics(`{"type":"SlowRequests","threshold":"2.5s","limit":0.02}`),
	metrics(`{"type":"SlowRequests","limit":0.001,"negligible":0.0005}`),
	metrics(`{"type":"SlowRequests","critical":false}`),
	metrics(`{"type":"EntryErrors","name":"again"}`),
	metrics(`{"type":"ClientErrors","ignoreCodes":[404,409],"query":""}`),
	metrics(`{"type":"Query","query":"checkout","name":"Checkout.paid"}`),
	`"exposure":{"minRatio":0,"maxRatio":1000}`,
	`"failOn":["Warn","Fail","Error","Inconclusive"]`,
	`"score":{"pass":80,"warn":80}`,
}

func checkGateRules(t *testing.T, api dynamic.ResourceInterface) {
	t.Helper()
	object := partOf(`"service":"cart"`)
	checkRules(t, api, gateRules, object, validateGate)
	right := slices.Clone(rightGates)
	for _, bound := range v1alpha1.GateThresholds() {
		right = append(right, metrics(fmt.Sprintf(`{"type":"SlowRequests","threshold":%q}`, bound)))
	}
	checkRight(t, api, right, object, validateGate)

	// Which type has which field is in a table in Go, and in the rules of the schema.
	for _, kind := range v1alpha1.GateMetricTypes() {
		for _, field := range []string{`"query":"checkout"`, `"threshold":"1s"`, `"ignoreCodes":[404]`, `"limit":0.1`} {
			query := ""
			if kind == v1alpha1.MetricQuery && !strings.Contains(field, "query") {
				query = `,"query":"checkout"`
			}
			spec := fmt.Sprintf(`"metrics":[{"type":%q,%s%s}]`, kind, field, query)
			_, err := api.Create(t.Context(), object(spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if ours := validateGate(t, object(spec)); (err == nil) != (ours == nil) {
				t.Errorf("%s: the API server says %v, and ours %v", spec, err, ours)
			}
		}
	}
}

func validateSource(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	var s v1alpha1.CDEventSource
	decoded(t, object, &s)
	if err := valid.Check(&s, namespace, transports.Schemes); err != nil {
		return err
	}
	return nil
}

// sourceOf is in a namespace of users.
func sourceOf(spec string) *unstructured.Unstructured {
	object := partOf(`"sink":{"uri":"http://sink.example.com"}`)(spec)
	object.SetKind(v1alpha1.SourceKind.Kind)
	return object
}

func ref(more string) string {
	return `{"sink":{"ref":{"apiVersion":"v1","name":"cart",` + more + `}}}`
}

func kindOf(apiVersion, kind string) string {
	return fmt.Sprintf(`{"sink":{"ref":{"apiVersion":%q,"kind":%q,"name":"cart"}}}`, apiVersion, kind)
}

func uri(u string) string { return fmt.Sprintf(`{"sink":{"uri":%q}}`, u) }

// letter returns a source with a dead letter sink.
func letter(sink string) string { return `"delivery":{"deadLetterSink":` + sink + `}` }

var sourceRules = map[string]rule{
	"no sink":               {spec: `{}`, where: "spec.sink"},
	"an empty sink":         {spec: `{"sink":{}}`, where: "spec.sink", both: "neither ref nor uri"},
	"no kind":               {spec: ref(`"kind":""`), where: "spec.sink.ref", ours: "needs apiVersion, kind and name"},
	"no name":               {spec: `{"sink":{"ref":{"apiVersion":"v1","kind":"Service"}}}`, where: "spec.sink.ref", ours: "needs apiVersion, kind and name"},
	"no version":            {spec: `{"sink":{"ref":{"name":"cart","kind":"Service"}}}`, where: "spec.sink.ref", ours: "needs apiVersion, kind and name"},
	"a path as version":     {spec: kindOf("a/b/v1", "Service"), where: "spec.sink.ref.apiVersion", ours: "GROUP/VERSION"},
	"a Pod":                 {spec: kindOf("v1", "Pod"), where: "spec.sink.ref", both: "cannot receive events; use a Broker"},
	"a Deployment":          {spec: kindOf("apps/v1", "Deployment"), where: "spec.sink.ref", both: "cannot receive events; use a Broker"},
	"an Ingress":            {spec: kindOf("networking.k8s.io/v1", "Ingress"), where: "spec.sink.ref", both: "cannot receive events; use a Broker"},
	"a gate":                {spec: kindOf("knative-cdevents.dev/v1alpha1", "CanaryGate"), where: "spec.sink.ref", both: "cannot receive events; use a Broker"},
	"a Revision":            {spec: kindOf("serving.knative.dev/v1", "Revision"), where: "spec.sink.ref", both: "cannot receive events; use a Broker"},
	"another namespace":     {spec: ref(`"kind":"Service","namespace":"bank"`), where: "spec.sink.ref", ours: "only to objects in its own namespace", unsaid: "rules see the name of an object, not its namespace"},
	"ref and host":          {spec: `{"sink":{"uri":"//sink/a","ref":{"apiVersion":"v1","kind":"Service","name":"cart"}}}`, where: "spec.sink", ours: "contains a host too"},
	"ref and scheme":        {spec: `{"sink":{"uri":"http://sink","ref":{"apiVersion":"v1","kind":"Service","name":"cart"}}}`, where: "spec.sink", ours: "contains a host too"},
	"a path":                {spec: uri("/events"), where: "spec.sink.uri", both: "http://HOST/PATH"},
	"nothing":               {spec: uri(""), where: "spec.sink.uri", both: "http://HOST/PATH"},
	"ftp":                   {spec: uri("ftp://sink"), where: "spec.sink.uri", ours: "its scheme must be http, https, kafka or kafkas"},
	"no host":               {spec: uri("http:///events"), where: "spec.sink.uri", ours: "has an empty hostname"},
	"only a port":           {spec: uri("http://:80/"), where: "spec.sink.uri", ours: "has an empty hostname"},
	"only a user":           {spec: uri("https://me@/"), where: "spec.sink.uri", ours: "has an empty hostname"},
	"not a URI":             {spec: uri("http://[::1"), where: "spec.sink.uri", both: "not a valid URI"},
	"a port of letters":     {spec: uri("http://sink:http/"), where: "spec.sink.uri", both: "not a valid URI"},
	"half an escape":        {spec: uri("http://sink/%z"), where: "spec.sink.uri", both: "not a valid URI"},
	"half a path":           {spec: `{"sink":{"uri":"/%z","ref":{"apiVersion":"v1","kind":"Service","name":"cart"}}}`, where: "spec.sink.uri", both: "not a valid URI"},
	"letters at half a URI": {spec: letter(`{"uri":"http://[::1"}`), where: "spec.delivery.deadLetterSink.uri", both: "not a valid URI"},
	"a host of two names":   {spec: uri("http://a,b/"), where: "spec.sink.uri", ours: "neither a name in DNS nor an address", unsaid: "a host is more than a regular expression tells"},
	"a path as a name":      {spec: `{"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"shop/cart"}}}`, where: "spec.sink.ref.name", ours: "may not contain '/'"},
	"up":                    {spec: `{"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":".."}}}`, where: "spec.sink.ref.name", ours: "may not be '..'"},
	"an escaped name":       {spec: letter(`{"ref":{"apiVersion":"v1","kind":"Service","name":"a%41"}}`), where: "spec.delivery.deadLetterSink.ref.name", ours: "may not contain '%'"},
	"a long URI":            {spec: uri("http://sink/" + strings.Repeat("a", 2048)), where: "spec.sink.uri", ours: "more than 2048 bytes"},
	"a URI as object":       {spec: `{"sink":{"uri":{"scheme":"http"}}}`, where: "spec.sink.uri"},
	"no topic":              {spec: uri("kafka://b1:9092,b2:9092"), where: "spec.sink.uri", both: "it must end with the name of a topic"},
	"a long topic":          {spec: uri("kafka://b1/" + strings.Repeat("a", 250)), where: "spec.sink.uri", both: "it must end with the name of a topic"},
	"a query for a topic":   {spec: uri("kafka://b1/events?acks=1"), where: "spec.sink.uri", ours: "neither a query nor a fragment"},
	"a user of Kafka":       {spec: uri("kafkas://me@b1/events"), where: "spec.sink.uri", both: "must not contain a user or a password; put them into a Secret that spec.auth names"},
	"a password":            {spec: uri("HTTPS://me:secret@sink:8443/a?b"), where: "spec.sink.uri", both: "must not contain a user or a password; put them into a Secret that spec.auth names"},
	"a user":                {spec: uri("http://me@sink"), where: "spec.sink.uri", both: "must not contain a user or a password"},
	"an empty user":         {spec: uri("http://@sink"), where: "spec.sink.uri", both: "must not contain a user or a password"},
	"two users":             {spec: uri("http://me@you@sink"), where: "spec.sink.uri", both: "must not contain a user or a password"},
	"letters of a user":     {spec: letter(`{"uri":"http://me:secret@letters"}`), where: "spec.delivery.deadLetterSink.uri", both: "must not contain a user or a password; spec.auth has those of the sink"},
	"no letters":            {spec: letter(`{}`), where: "spec.delivery.deadLetterSink", both: "neither ref nor uri"},
	"letters to a Pod":      {spec: letter(`{"ref":{"apiVersion":"v1","kind":"Pod","name":"a"}}`), where: "spec.delivery.deadLetterSink.ref", both: "cannot receive events; use a Broker"},
	"letters to nobody":     {spec: letter(`{"uri":"http://"}`), where: "spec.delivery.deadLetterSink.uri", ours: "has an empty hostname"},
	"letters without topic": {spec: letter(`{"uri":"kafka://b1"}`), where: "spec.delivery.deadLetterSink.uri", both: "it must end with the name of a topic"},

	"no secret":         {spec: `"auth":{"authorization":{"name":"","key":"a"}}`, where: "spec.auth.authorization.name", ours: "RFC 1123 subdomain"},
	"another's secret":  {spec: `"auth":{"authorization":{"name":"bank/a","key":"a"}}`, where: "spec.auth.authorization.name", ours: "RFC 1123 subdomain"},
	"a long secret":     {spec: `"auth":{"clientCertificate":{"name":"` + strings.Repeat("a", 254) + `"}}`, where: "spec.auth.clientCertificate.name", ours: "253"},
	"no key":            {spec: `"auth":{"authorization":{"name":"a"}}`, where: "spec.auth.authorization.key", ours: "a valid config key"},
	"a path as key":     {spec: `"auth":{"authorization":{"name":"a","key":"b/c"}}`, where: "spec.auth.authorization.key", ours: "a valid config key"},
	"a long key":        {spec: `"auth":{"authorization":{"name":"a","key":"` + strings.Repeat("a", 254) + `"}}`, where: "spec.auth.authorization.key", ours: "253"},
	"authorities":       {spec: `{"sink":{"uri":"https://sink","CACerts":"` + strings.Repeat("a", 64<<10+1) + `"}}`, where: "spec.sink.CACerts", ours: "more than 65536 bytes"},
	"an audience":       {spec: `{"sink":{"uri":"https://sink","audience":"` + strings.Repeat("a", 1025) + `"}}`, where: "spec.sink.audience", ours: "more than 1024 bytes"},
	"a long address":    {spec: ref(`"kind":"Service","address":"` + strings.Repeat("a", 254) + `"`), where: "spec.sink.ref.address", ours: "more than 253 bytes"},
	"a long group":      {spec: ref(`"kind":"Service","group":"` + strings.Repeat("a", 254) + `"`), where: "spec.sink.ref.group", ours: "more than 253 bytes"},
	"a long kind":       {spec: kindOf("example.com/v1", strings.Repeat("a", 64)), where: "spec.sink.ref.kind", ours: "more than 63 bytes"},
	"a long namespace":  {spec: ref(`"kind":"Service","namespace":"` + strings.Repeat("a", 64) + `"`), where: "spec.sink.ref", ours: "only to objects in its own namespace"},
	"letters' audience": {spec: letter(`{"uri":"https://letters","audience":"` + strings.Repeat("a", 1025) + `"}`), where: "spec.delivery.deadLetterSink.audience", ours: "more than 1024 bytes"},

	"retry":          {spec: `"delivery":{"retry":-1}`, where: "spec.delivery.retry", ours: "must not be negative"},
	"retry alone":    {spec: `"delivery":{"retry":3}`, where: "spec.delivery.retry", both: "needs deadLetterSink, which gets the event after so many retries"},
	"many retries":   {spec: `"delivery":{"retry":1001}`, where: "spec.delivery.retry", ours: "must not be more than 1000"},
	"backoff":        {spec: `"delivery":{"backoffPolicy":"often"}`, where: "spec.delivery.backoffPolicy", ours: "linear or exponential"},
	"format":         {spec: `"delivery":{"format":"yaml"}`, where: "spec.delivery.format", ours: "binary or json"},
	"a bare number":  {spec: `"delivery":{"timeout":"30"}`, where: "spec.delivery.timeout"},
	"a day":          {spec: `"delivery":{"retryAfterMax":"1d"}`, where: "spec.delivery.retryAfterMax", ours: "ISO 8601 duration"},
	"a month":        {spec: `"delivery":{"backoffDelay":"P1M"}`, where: "spec.delivery.backoffDelay", ours: "years and months"},
	"P":              {spec: `"delivery":{"retryAfterMax":"P"}`, where: "spec.delivery.retryAfterMax"},
	"two hours":      {spec: `"delivery":{"timeout":"PT2H"}`, where: "spec.delivery.timeout", ours: "too long"},
	"an hour and":    {spec: `"delivery":{"timeout":"1h0.001s"}`, where: "spec.delivery.timeout", ours: "too long"},
	"no timeout":     {spec: `"delivery":{"timeout":"0s"}`, where: "spec.delivery.timeout", ours: "too short"},
	"a short delay":  {spec: `"delivery":{"backoffDelay":"PT0.09S"}`, where: "spec.delivery.backoffDelay", ours: "too short"},
	"a long delay":   {spec: `"delivery":{"backoffDelay":"24h1s"}`, where: "spec.delivery.backoffDelay", ours: "too long"},
	"a long wait":    {spec: `"delivery":{"retryAfterMax":"PT24H0M1S"}`, where: "spec.delivery.retryAfterMax", ours: "too long"},
	"two days":       {spec: `"delivery":{"retryAfterMax":"P2D"}`, where: "spec.delivery.retryAfterMax", ours: "too long", unsaid: "CEL does not know days"},
	"version":        {spec: `"cdevents":{"version":"0.3"}`, where: "spec.cdevents.version", ours: `must be "0.5" or "0.4"`},
	"replay":         {spec: `"replay":"Everything"`, where: "spec.replay", schemaOnly: "it was never stored, and would be read as None"},
	"no environment": {spec: `"environment":{}`, where: "spec.environment.id", ours: "is empty"},
	"blank":          {spec: `"environment":{"id":" "}`, where: "spec.environment.id", ours: "is empty"},
	"long id":        {spec: `"environment":{"id":"` + strings.Repeat("a", 1025) + `"}`, where: "spec.environment", ours: "more than 1024 bytes"},
	"two words":      {spec: `"environment":{"id":"a","source":"two words"}`, where: "spec.environment.source", ours: "not a URI reference"},
	"half a URI":     {spec: `"environment":{"id":"a","source":"%zz"}`, where: "spec.environment.source", both: "URI reference"},
	"half a host":    {spec: `"environment":{"id":"a","source":"http://[::1"}`, where: "spec.environment.source", both: "URI reference"},
	"not ASCII":      {spec: `"environment":{"id":"a","source":"https://exämple.com"}`, where: "spec.environment.source", ours: "URI reference"},
	"all extensions": {spec: `"ceOverrides":{"extensions":{"a":"` + strings.Repeat("b", 2048) + `","b":"` + strings.Repeat("b", 2047) + `"}}`, where: "spec.ceOverrides.extensions", both: "not have more than 4096"},
	"capital":        {spec: `"ceOverrides":{"extensions":{"Team":"a"}}`, where: "spec.ceOverrides.extensions", both: "names that CloudEvents does not allow (only lowercase letters and digits)"},
	"override type":  {spec: `"ceOverrides":{"extensions":{"type":"a"}}`, where: "spec.ceOverrides.extensions", both: "an attribute that CDEvents defines cannot be overridden"},
	"another data":   {spec: `"ceOverrides":{"extensions":{"data":"a"}}`, where: "spec.ceOverrides.extensions", both: "an attribute that CDEvents defines cannot be overridden"},
	"nothing in it":  {spec: `"ceOverrides":{"extensions":{"team":" "}}`, where: "spec.ceOverrides.extensions", ours: "must not be empty"},
	"two lines":      {spec: `"ceOverrides":{"extensions":{"team":"a\nb"}}`, where: "spec.ceOverrides.extensions", ours: "or hold control characters"},
	"a number":       {spec: `"ceOverrides":{"extensions":{"a":1}}`, where: "spec.ceOverrides.extensions"},
	"65 extensions":  {spec: `"ceOverrides":{"extensions":{` + extensions(65) + `}}`, where: "spec.ceOverrides.extensions", ours: "more than 64"},
	"long extension": {spec: `"ceOverrides":{"extensions":{"a":"` + strings.Repeat("b", 4097) + `"}}`, where: "spec.ceOverrides.extensions", ours: "not have more than 4096"},
	"operator":       {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"Is"}]}`, where: "spec.selector", ours: "not a valid label selector"},
	"in nothing":     {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}`, where: "spec.selector", ours: "not a valid label selector"},
	"exists as":      {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}`, where: "spec.selector", ours: "not a valid label selector"},
	"a wrong label":  {spec: `"selector":{"matchLabels":{"a b":"c"}}`, where: "spec.selector", ours: "not a valid label selector"},
	"a long name":    {spec: `"selector":{"matchLabels":{"a/` + strings.Repeat("b", 64) + `":"c"}}`, where: "spec.selector", ours: "not a valid label selector"},
	"half a key":     {spec: `"namespaceSelector":{"matchLabels":{"a.b/":"c"}}`, where: "spec.namespaceSelector", ours: "not a valid label selector"},
	"a wrong key":    {spec: `"selector":{"matchExpressions":[{"key":"A/b","operator":"Exists"}]}`, where: "spec.selector", ours: "not a valid label selector"},
	"a wrong value":  {spec: `"selector":{"matchLabels":{"a":"-b"}}`, where: "spec.selector", ours: "not a valid label selector"},
	"a wrong choice": {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}`, where: "spec.selector", ours: "not a valid label selector"},
	"65 labels":      {spec: `"selector":{"matchLabels":{` + extensions(65) + `}}`, where: "spec.selector.matchLabels", ours: "not have more than 64"},
	"long label":     {spec: `"selector":{"matchLabels":{"a":"` + strings.Repeat("b", 64) + `"}}`, where: "spec.selector", ours: "63"},
	"65 expressions": {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"Exists"}` + strings.Repeat(`,{"key":"a","operator":"Exists"}`, 64) + `]}`, where: "spec.selector.matchExpressions", ours: "not have more than 64"},
	"257 values":     {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"` + strings.Repeat(`,"b"`, 256) + `]}]}`, where: "spec.selector.matchExpressions[0].values", ours: "not have more than 256"},
	"long value":     {spec: `"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["` + strings.Repeat("b", 64) + `"]}]}`, where: "spec.selector", ours: "63"},
	"long key":       {spec: `"selector":{"matchExpressions":[{"key":"` + strings.Repeat("a", 318) + `","operator":"Exists"}]}`, where: "spec.selector", ours: "63"},
	"of others":      {spec: `"namespaceSelector":{}`, where: "spec.namespaceSelector", unsaid: "it depends on the namespace of the controller"},
	"an expression":  {spec: `"filters":[{"cesql":"1 + 1"}]`, where: "spec.filters[0]", unsaid: "only a parser of CESQL can tell"},
	"long filter":    {spec: `"filters":[{"cesql":"` + strings.Repeat("x", 1025) + `"}]`, where: "spec.filters[0]"},
	"two in one":     {spec: `"filters":[{"exact":{"type":"a"}},{"prefix":{"type":"a"},"cesql":"TRUE"}]`, where: "spec.filters[1]", both: "make a separate filter of each"},
	"no filter":      {spec: `"filters":[{}]`, where: "spec.filters[0]", ours: "specify one of"},
	"misspelled":     {spec: `"filters":[{"any":[{"exact":{"type":"a"},"Prefix":{"type":"b"}}]}]`, where: "spec.filters[0].any[0].Prefix", ours: "use one of exact", unsaid: "a schema cannot contain itself"},
	"empty exact":    {spec: `"filters":[{"exact":{}}]`, where: "spec.filters[0]", ours: "specify one of"},
	"empty prefix":   {spec: `"filters":[{"prefix":{"type":""}}]`, where: "spec.filters[0]", ours: "specify one of"},
	"empty all":      {spec: `"filters":[{"all":[]}]`, where: "spec.filters[0]", ours: "specify one of"},
	"empty cesql":    {spec: `"filters":[{"cesql":""}]`, where: "spec.filters[0]", ours: "specify one of"},
	"Type":           {spec: `"filters":[{"exact":{"Type":"a"}}]`, where: "spec.filters[0]", both: "only lowercase letters and digits"},
	"a-b":            {spec: `"filters":[{"suffix":{"a-b":"c"}}]`, where: "spec.filters[0]", both: "only lowercase letters and digits"},
	"65 attributes":  {spec: `"filters":[{"exact":{` + extensions(65) + `}}]`, where: "spec.filters[0]", ours: "not compare more than 64"},
	"65 nested":      {spec: `"filters":[{"any":[{"exact":{` + extensions(65) + `}}]}]`, where: "spec.filters[0]", ours: "not compare more than 64", unsaid: "a schema cannot contain itself"},
	"long attribute": {spec: `"filters":[{"suffix":{"type":"` + strings.Repeat("b", 4097) + `"}}]`, where: "spec.filters[0]", ours: "not be more than 4096"},
	"many filters":   {spec: `"filters":[{}` + strings.Repeat(`,{}`, 64) + `]`, where: "spec.filters"},
	"many in one":    {spec: `"filters":[{"any":[{}` + strings.Repeat(`,{}`, 64) + `]}]`, where: "spec.filters[0]"},
}

func extensions(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"a%d":"b"`, i)
	}
	return strings.Join(all, ",")
}

var rightSources = []string{
	uri("http://sink"), uri("HTTPS://sink:8443/a?b=c@d"), uri("http://sink/me:you@home"), uri("http://[fd00::1]:80/"), uri("kafka://b1:9092,b2:9092/events.new-1_a"),
	kindOf("v1", "Service"), kindOf("eventing.knative.dev/v1", "Broker"), kindOf("serving.knative.dev/v1", "Route"), kindOf("example.com/v1", "Any"),
	`{"sink":{"uri":"/a:b","ref":{"apiVersion":"v1","kind":"Service","name":"cart"}}}`,
	letter(`{"uri":"http://letters"}`), letter(`{"uri":"http://letters"},"retry":0`), letter(`{"uri":"http://letters"},"retry":1000`),
	`"delivery":{"timeout":"PT0.1S","backoffDelay":"PT0.1S","retryAfterMax":"0s"}`, `"delivery":{"timeout":"PT1H","backoffDelay":"P1D","retryAfterMax":"PT24H"}`, `"delivery":{"timeout":"60m","backoffDelay":"1439m60s","retryAfterMax":"P0DT1H"}`,
	`"delivery":{"timeout":"PT0.5S","backoffDelay":"1.5s","retryAfterMax":"P1D"}`, `"delivery":{"timeout":"1m30s","retryAfterMax":"PT0S"}`,
	`"ceOverrides":{"extensions":{` + extensions(64) + `}}`,
	`"selector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b",""]},{"key":"c","operator":"DoesNotExist","values":[]}]}`,
	`"selector":{"matchLabels":{` + extensions(64) + `}}`, `"selector":{"matchLabels":{"a.b-c/D_e.f-1":"","` + strings.Repeat("a", 63) + `":"B_c.d-1"}}`,
	`"filters":[{"exact":{"type":"a","team":"b"}},{"prefix":{"type":"a"}},{"suffix":{"type":"a"}},{"any":[{"cesql":"TRUE"}]},{"all":[{"cesql":"TRUE"}]},{"not":{"cesql":"FALSE"}},{"cesql":"TRUE"}]`,
	`"selector":{"matchExpressions":[{"key":"` + strings.Repeat("a.", 126) + `a/` + strings.Repeat("b", 63) + `","operator":"NotIn","values":["b"` + strings.Repeat(`,"b"`, 255) + `]}]}`,
	`"filters":[{"exact":{"type":"` + strings.Repeat("b", 4096) + `"}},{"prefix":{` + extensions(64) + `}}]`,
	`"auth":{"authorization":{"name":"a.b-c","key":"` + strings.Repeat("a", 253) + `"},"clientCertificate":{"name":"pair"}}`,
	`{"sink":{"uri":"https://sink","audience":"` + strings.Repeat("a", 1024) + `","CACerts":"` + strings.Repeat("a", 64<<10) + `"}}`,
	`"environment":{"id":"prod","source":"https://example.com/environments"}`, `"environment":{"id":"prod","source":"urn:env:a"}`, `"environment":{"id":"prod","source":"/env/a?b='c'#d"}`, `"environment":{"id":"prod","source":""}`,
	`"ceOverrides":{"extensions":{"team":"Käse & Wein","traceparent":"x","partitionkey":"y"}}`,
	uri("https://sink/a#b"), uri("http://sink#b"), `"environment":{"id":"prod","source":"http://env#prod"}`, uri("kafka://b/" + strings.Repeat("a", 249)), uri("http://[::1]:80?a=%20"), `{"sink":{"uri":"a?b=c","ref":{"apiVersion":"v1","kind":"Service","name":"cart"}}}`, `{"sink":{"ref":{"apiVersion":"a.example/v1","kind":"A","name":"a:b.c_D"}}}`,
	`"ceOverrides":{"extensions":{"a":"` + strings.Repeat("b", 2048) + `","b":"` + strings.Repeat("b", 2046) + `"}}`,
}

func checkSourceRules(t *testing.T, api dynamic.ResourceInterface) {
	t.Helper()
	checkRules(t, api, sourceRules, sourceOf, validateSource)
	checkRight(t, api, rightSources, sourceOf, validateSource)
}
