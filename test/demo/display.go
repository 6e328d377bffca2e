// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// display follows the log of event_display and records the events in it.
type display struct {
	mu   sync.Mutex
	seen []announced
}

// follow reads the log from a time on, until the context ends. It records and shows every event of the Service with
// that UID.
func (d *display) follow(ctx context.Context, k *kit.Kit, pod string, from time.Time, uid string, show func(announced)) error {
	since := metav1.NewTime(from)
	logs, err := k.Kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true, SinceTime: &since}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("following the log of event_display: %w", err)
	}
	defer func() { _ = logs.Close() }() // the log is only read
	err = read(logs, func(e announced) {
		if e.uid != uid {
			return
		}
		d.mu.Lock()
		d.seen = append(d.seen, e)
		d.mu.Unlock()
		show(e)
	})
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errors.New("the log of event_display ended"), err)
}

// wait returns once that many events with the short type have been shown.
func (d *display) wait(ctx context.Context, short string, count int) error {
	return d.waitFor(ctx, short, count, time.Minute)
}

// waitFor does the same, and waits for at most that long.
func (d *display) waitFor(ctx context.Context, short string, count int, within time.Duration) error {
	return kit.Wait(ctx, within, "the event "+short, func(context.Context) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		n := 0
		for _, e := range d.seen {
			if e.short == short {
				n++
			}
		}
		if n < count {
			return kit.NotYet("%d of %d arrived", n, count)
		}
		return nil
	})
}

// read finds events in the log: a line with a cloud starts one, and the indented JSON at its end is the data.
func read(log io.Reader, show func(announced)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 4<<20)
	var data *strings.Builder
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.Contains(line, "cloudevents.Event"):
			data = nil
		case line == "Data,":
			data = &strings.Builder{}
		case data != nil:
			data.WriteString(line)
			// The closing brace of the outermost object has the indentation of the opening one.
			if line != "  }" {
				continue
			}
			e, err := parse([]byte(data.String()))
			if err != nil {
				return err
			}
			show(e)
			data = nil
		}
	}
	return lines.Err()
}

// announced is an event in a form for people.
type announced struct {
	at       time.Time
	typ      string
	short    string
	subject  string
	artifact string
	uid      string
	story    string
}

// cdevent has the fields of a CDEvent that the demo uses.
type cdevent struct {
	Context struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
	} `json:"context"`
	Subject struct {
		ID      string `json:"id"`
		Content struct {
			ArtifactID string `json:"artifactId"`
		} `json:"content"`
	} `json:"subject"`
	CustomData struct {
		Cluster struct {
			Placement struct {
				Moves int `json:"moves"`
			} `json:"placement"`
		} `json:"cluster"`
		Environment struct {
			Name     string `json:"name"`
			UID      string `json:"uid"`
			Version  string `json:"version"`
			Previous *struct {
				Version string `json:"version"`
			} `json:"previous"`
		} `json:"environment"`
		Gate struct {
			Verdict string `json:"verdict"`
		} `json:"gate"`
		Knative struct {
			Name             string   `json:"name"`
			UID              string   `json:"uid"`
			Revision         *named   `json:"revision"`
			PreviousRevision *named   `json:"previousRevision"`
			URLs             []string `json:"urls"`
			Traffic          []struct {
				Revision string `json:"revision"`
				Percent  int64  `json:"percent"`
			} `json:"traffic"`
		} `json:"knative"`
	} `json:"customData"`
}

type named struct {
	Name string `json:"name"`
}

func (n *named) String() string {
	if n == nil {
		return "an unknown Revision"
	}
	return n.Name
}

func parse(data []byte) (announced, error) {
	var e cdevent
	if err := json.Unmarshal(data, &e); err != nil {
		return announced{}, fmt.Errorf("reading an event from the log of event_display: %w: %s", err, data)
	}
	k := e.CustomData.Knative
	t := announced{
		at: e.Context.Timestamp, typ: e.Context.Type, short: short(e.Context.Type),
		subject: e.Subject.ID, artifact: e.Subject.Content.ArtifactID, uid: k.UID,
	}
	environment := e.CustomData.Environment
	if t.uid == "" {
		t.uid = environment.UID
	}
	switch t.short {
	case "clusterapi-cluster.created":
		t.story = fmt.Sprintf("cluster %s was requested", environment.Name)
	case "environment.created":
		t.story = fmt.Sprintf("%s is ready, with Kubernetes %s", environment.Name, environment.Version)
	case "environment.modified":
		t.story = environment.Name + " has changed"
		if before := environment.Previous; before != nil && before.Version != environment.Version {
			t.story = fmt.Sprintf("%s went from Kubernetes %s to %s", environment.Name, before.Version, environment.Version)
		}
	case "environment.deleted":
		t.story = environment.Name + " is gone"
	case "service.created":
		t.story = fmt.Sprintf("%s was created and is not ready yet", k.Name)
	case "revision.ready":
		t.story = fmt.Sprintf("Revision %s is ready, before it has traffic", k.Revision)
	case "service.deployed":
		t.story = fmt.Sprintf("%s is ready for the first time, with %s", k.Name, k.Revision)
	case "service.published":
		t.story = fmt.Sprintf("%s is available at %s", k.Name, strings.Join(k.URLs, ", "))
	case "traffic.shifted":
		var split []string
		for _, s := range k.Traffic {
			split = append(split, fmt.Sprintf("%d %% to %s", s.Percent, s.Revision))
		}
		t.story = "the traffic split is now: " + strings.Join(split, ", ")
	case "service.upgraded":
		t.story = fmt.Sprintf("all traffic moved from %s to the newer %s", k.PreviousRevision, k.Revision)
	case "service.rolledback":
		t.story = fmt.Sprintf("all traffic moved back from %s to %s", k.PreviousRevision, k.Revision)
	case "service.removed":
		t.story = fmt.Sprintf("%s was deleted", k.Name)
	case "cluster.formed":
		t.story = fmt.Sprintf("the pods of %s have formed a cluster", k.Name)
	case "cluster.settled":
		t.story = fmt.Sprintf("its shards have settled, including those in %s", k.Revision)
	case "cluster.rebalanced":
		t.story = fmt.Sprintf("its shards are divided as the traffic is, after %d moves", e.CustomData.Cluster.Placement.Moves)
	case "testcaserun.finished":
		t.story = fmt.Sprintf("a gate judged %s: %s", k.Revision, e.CustomData.Gate.Verdict)
	default:
		t.story = k.Name
	}
	return t, nil
}

// artifact shortens a package URL for people: name, start of the digest, and repository.
func artifact(purl string) string {
	name, query, _ := strings.Cut(strings.TrimPrefix(purl, "pkg:oci/"), "?")
	name, err := url.PathUnescape(name)
	if err != nil || !strings.HasPrefix(purl, "pkg:oci/") {
		return purl
	}
	if at, digest, ok := strings.Cut(name, "@sha256:"); ok && len(digest) > 12 {
		name = at + "@sha256:" + digest[:12] + "…"
	}
	if values, err := url.ParseQuery(query); err == nil && values.Get("repository_url") != "" {
		name += " in " + values.Get("repository_url")
	}
	return name
}

// short shortens a type for people: "service.deployed" for "dev.cdevents.service.deployed.0.3.0".
func short(typ string) string {
	s := strings.TrimPrefix(typ, "dev.cdevents.")
	for _, custom := range []string{"dev.cdeventsx.knative-", "dev.cdeventsx.stateful-", "dev.cdeventsx."} {
		s = strings.TrimPrefix(s, custom)
	}
	if parts := strings.Split(s, "."); len(parts) > 2 {
		return parts[0] + "." + parts[1]
	}
	return s
}
