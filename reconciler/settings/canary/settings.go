// SPDX-License-Identifier: Apache-2.0

// Package canary reads ConfigMap config-canary.
//
// Its invariant: Current always returns complete and valid settings. A ConfigMap with
// an invalid value is rejected as a whole, with a message that names the key and the
// valid values, and the last valid one stays in effect. Without one, even at startup, the
// defaults apply: a mistake in measuring must not stop events.
package canary

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/configmap"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/promquery"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
)

// Name of the ConfigMap, in the controller's namespace.
const Name = "config-canary"

// The keys of the ConfigMap, beside one for each mapping and query.
const (
	intervalKey   = "scrape-interval"
	timeoutKey    = "scrape-timeout"
	bodyKey       = "scrape-body-limit"
	seriesKey     = "scrape-series-limit"
	mappingPrefix = "mapping."
	prometheusKey = "prometheus-url"
	queryPrefix   = "query."
	sleepKey      = "sleep-after"
)

// DefaultInterval is also common with Prometheus.
const DefaultInterval = 15 * time.Second

// DefaultSleepAfter is long beside the start of the controller, and short beside the time between two deployments.
const DefaultSleepAfter = 15 * time.Minute

// Bounds of the settings.
const (
	minInterval, maxInterval = time.Second, 5 * time.Minute
	minBody, maxBody         = 64 << 10, 64 << 20
	minSeries, maxSeries     = 100, 200_000
	minSleep, maxSleep       = time.Minute, 24 * time.Hour
)

// Settings configures the scraping of canary metrics.
type Settings struct {
	Interval time.Duration
	Limits   limits.Reading
	// Mappings are in order of precedence. The neutral contract is not among them; it
	// precedes them all.
	Mappings []mapping.Mapping
	// Queries are what gates may ask the operator's Prometheus, by name. Prometheus is its address; nil if there
	// are none.
	Queries    map[string]promquery.Template
	Prometheus *url.URL
	// SleepAfter is how long there must have been nothing to measure before the controller sleeps, in the serverless mode.
	SleepAfter time.Duration

	readers map[string]*mapping.Reader
	entry   *mapping.Reader
}

// Default returns the settings that apply without a ConfigMap.
func Default() Settings {
	s := Settings{Interval: DefaultInterval, Limits: limits.Default, SleepAfter: DefaultSleepAfter}
	s.prepare()
	return s
}

// anyRuntime is the key of the reader for runtimes that no mapping names.
const anyRuntime = ""

func (s *Settings) prepare() {
	s.entry = mapping.Entry()
	s.readers = map[string]*mapping.Reader{}
	runtimes := []string{anyRuntime}
	for i := range s.Mappings {
		runtimes = append(runtimes, s.Mappings[i].Runtimes...)
	}
	for _, runtime := range runtimes {
		sources := []mapping.Mapping{mapping.Neutral()}
		for _, m := range s.Mappings {
			if m.Serves(runtime) {
				sources = append(sources, m)
			}
		}
		s.readers[runtime] = mapping.NewReader(sources...)
	}
}

// Reader returns the reader for the pods of a runtime.
func (s Settings) Reader(runtime string) *mapping.Reader {
	if r, ok := s.readers[runtime]; ok {
		return r
	}
	return s.readers[anyRuntime]
}

// Entry returns the reader for queue-proxy.
func (s Settings) Entry() *mapping.Reader { return s.entry }

// keys of the ConfigMap, beside one for each mapping and query.
var keys = []string{
	intervalKey, timeoutKey, bodyKey, seriesKey, sleepKey, prometheusKey, configmap.ExampleKey,
}

// Check rejects a ConfigMap with an invalid value or an unknown key before it takes effect. FromConfigMap reads one
// that is already in effect, and ignores unknown keys.
func Check(c *corev1.ConfigMap) (Settings, error) {
	s, err := FromConfigMap(c)
	for _, key := range Unknown(c) {
		err = errors.Join(err, fmt.Errorf("ConfigMap %s/%s: %s is not a setting; the settings are %s, %s, %s, %s, %s, %s, "+
			"%s<name> and %s<name>", c.Namespace, c.Name, key, intervalKey, timeoutKey, bodyKey, seriesKey, sleepKey,
			prometheusKey, mappingPrefix, queryPrefix))
	}
	return s, err
}

// Unknown returns keys that are typos, or come from a later version. They are logged and ignored, so that a downgrade
// works. ConfigMap config-cdevents is treated alike.
func Unknown(c *corev1.ConfigMap) []string {
	var out []string
	for key := range c.Data {
		if !slices.Contains(keys, key) && !strings.HasPrefix(key, mappingPrefix) && !strings.HasPrefix(key, queryPrefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// FromConfigMap parses the ConfigMap on top of the defaults.
func FromConfigMap(c *corev1.ConfigMap) (Settings, error) {
	s := Default()
	errs := []error{
		span(c.Data, intervalKey, &s.Interval, minInterval, maxInterval),
		span(c.Data, timeoutKey, &s.Limits.Timeout, 100*time.Millisecond, maxInterval),
		bytes(c.Data, &s.Limits.Body),
		number(c.Data, &s.Limits.Series),
		span(c.Data, sleepKey, &s.SleepAfter, minSleep, maxSleep),
	}
	if s.Limits.Timeout >= s.Interval {
		if c.Data[timeoutKey] != "" {
			errs = append(errs, fmt.Errorf("%s is %s; it must be less than %s, which is %s", timeoutKey, s.Limits.Timeout,
				intervalKey, s.Interval))
		}
		s.Limits.Timeout = s.Interval / 2
	}
	errs = append(errs, s.readQueries(c.Data))
	texts := map[string]string{}
	for key, text := range c.Data {
		if name, isMapping := strings.CutPrefix(key, mappingPrefix); isMapping {
			texts[name] = text
		}
	}
	var err error
	s.Mappings, err = mapping.ParseAll(texts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return Settings{}, fmt.Errorf("ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	s.prepare()
	return s, nil
}

// readQueries reads the operator's queries, and the address of the Prometheus that answers them.
func (s *Settings) readQueries(data map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, isQuery := strings.CutPrefix(key, queryPrefix)
		if !isQuery {
			continue
		}
		t, err := promquery.Parse(name, data[key])
		errs = append(errs, err)
		if s.Queries == nil {
			s.Queries = map[string]promquery.Template{}
		}
		s.Queries[name] = t
	}
	text, given := data[prometheusKey]
	if !given && len(s.Queries) > 0 {
		errs = append(
			errs,
			fmt.Errorf(
				"%s is missing; queries need the address of your Prometheus, such as http://prometheus.monitoring.svc:9090",
				prometheusKey,
			),
		)
	}
	if given {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
			u.Fragment != "" {
			return errors.Join(
				append(
					errs,
					fmt.Errorf(
						"%s is %q; it must be the address of your Prometheus, such as http://prometheus.monitoring.svc:9090, without user, query and fragment",
						prometheusKey,
						text,
					),
				)...)
		}
		if _, err := hosts.Of(u.Hostname()); err != nil {
			return errors.Join(append(errs, fmt.Errorf("%s is %q, which cannot be used: the host %w", prometheusKey, text,
				err))...)
		}
		s.Prometheus = u
	}
	return errors.Join(errs...)
}

func span(data map[string]string, key string, into *time.Duration, least, most time.Duration) error {
	text, given := data[key]
	if !given {
		return nil
	}
	value, err := duration.Parse(text)
	if err != nil {
		return fmt.Errorf("%s must be a duration such as 15s: %w", key, err)
	}
	if value < least || value > most {
		return fmt.Errorf("%s is %s; it must be between %s and %s", key, value, least, most)
	}
	*into = value
	return nil
}

func bytes(data map[string]string, into *int64) error {
	value, ok := data[bodyKey]
	if !ok {
		return nil
	}
	q, err := resource.ParseQuantity(strings.TrimSpace(value))
	if err != nil || q.Value() < minBody || q.Value() > maxBody {
		return fmt.Errorf("%s is %q; it must be a number of bytes such as 4Mi, between 64Ki and 64Mi", bodyKey, value)
	}
	*into = q.Value()
	return nil
}

func number(data map[string]string, into *int) error {
	value, ok := data[seriesKey]
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < minSeries || n > maxSeries {
		return fmt.Errorf("%s is %q; it must be a number between %d and %d", seriesKey, value, minSeries, maxSeries)
	}
	*into = n
	return nil
}

// Store holds the settings in effect.
type Store struct {
	logger  *zap.SugaredLogger
	ignored settings.Ignored
	current atomic.Pointer[Settings]
}

// NewStore watches the ConfigMap. The defaults apply until it is read, and when it
// does not exist.
func NewStore(logger *zap.SugaredLogger, namespace string, cmw configmap.Watcher) *Store {
	s := &Store{logger: logger}
	first := Default()
	s.current.Store(&first)
	absent := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
	// Without a default, the watcher does not start before the ConfigMap exists.
	if d, ok := cmw.(configmap.DefaultingWatcher); ok {
		d.WatchWithDefault(absent, s.changed)
	} else {
		cmw.Watch(Name, s.changed)
	}
	return s
}

// Current returns the settings in effect.
func (s *Store) Current() Settings { return *s.current.Load() }

func (s *Store) changed(c *corev1.ConfigMap) {
	s.ignored.Say(s.logger, c, Unknown(c))
	next, err := FromConfigMap(c)
	if err != nil {
		s.logger.Errorf("The configuration of canary metrics is not valid, and the last valid one stays in effect: %v", err)
		return
	}
	s.current.Store(&next)
	s.logger.Infof("Pods are scraped every %s, by %s beside the neutral contract", next.Interval,
		plural.Of(len(next.Mappings), "mapping", "mappings"))
}
