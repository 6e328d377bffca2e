// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// auditLog is the API server's audit log from the moment it was opened.
type auditLog struct {
	path string
	from int64
	// opened is the file as it was then.
	opened os.FileInfo
}

func openAuditLog(ctx context.Context) (*auditLog, error) {
	path, err := suite.Address(ctx, "audit")
	if err != nil {
		return nil, err
	}
	return (&auditLog{path: path}).fromNow()
}

// fromNow returns the same log without what it has.
func (l *auditLog) fromNow() (*auditLog, error) {
	info, err := os.Stat(l.path)
	if err != nil {
		return nil, fmt.Errorf("looking for the audit log: %w", err)
	}
	return &auditLog{path: l.path, from: info.Size(), opened: info}, nil
}

// entry is one request in the audit log.
type entry struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	// StageTimestamp is when the request reached its stage; SourceIPs are the client's addresses.
	StageTimestamp time.Time `json:"stageTimestamp"`
	SourceIPs      []string  `json:"sourceIPs"`
	User           struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e entry) String() string {
	return fmt.Sprintf("%s %s (answered %d, %s)", e.Verb, e.RequestURI, e.ResponseStatus.Code, e.UserAgent)
}

func (e entry) reads() bool { return slices.Contains([]string{"get", "list", "watch"}, e.Verb) }

// own reports what the controller may write: its own kinds, and objects in its own namespace.
func (e entry) own() bool {
	return e.ObjectRef != nil && (e.ObjectRef.APIGroup == v1alpha1.GroupName || e.ObjectRef.Namespace == kit.Namespace)
}

// isReview reports a review, which the API server answers and does not store.
func (e entry) isReview() bool {
	return e.ObjectRef != nil && e.Verb == "create" && slices.Contains(questions, e.ObjectRef.Resource)
}

// updatesGateRun reports a status update of a CustomRun that names a CanaryGate, which the opt-in part for Tekton
// allows.
func (e entry) updatesGateRun(ours func(namespace, name string) bool) bool {
	o := e.ObjectRef
	return o != nil && o.APIGroup == customRuns.Group && o.Resource == customRuns.Resource && o.Subresource == "status" &&
		slices.Contains([]string{"update", "patch"}, e.Verb) && ours(o.Namespace, o.Name)
}

// of returns the requests of one user. It reads the files that the log was rotated to, too.
func (l *auditLog) of(user string) ([]entry, error) {
	files, err := l.files()
	if err != nil {
		return nil, err
	}
	var out []entry
	for i, path := range files {
		from := int64(0)
		if i == 0 {
			from = l.from
		}
		if out, err = appendEntries(out, path, from, user); err != nil {
			return nil, fmt.Errorf("reading the audit log %s: %w", path, err)
		}
	}
	return out, nil
}

// files lists the files of the log, oldest first, beginning with the one that was current when it was opened.
func (l *auditLog) files() ([]string, error) {
	extension := filepath.Ext(l.path)
	all, err := filepath.Glob(strings.TrimSuffix(l.path, extension) + "-*" + extension) // their names end with the time
	if err != nil {
		return nil, fmt.Errorf("looking for the audit log: %w", err)
	}
	slices.Sort(all)
	all = append(all, l.path)
	for i, path := range all {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, l.opened) {
			return all[i:], nil
		}
	}
	return nil, fmt.Errorf("the audit log %s was rotated so often that its beginning is gone", l.path)
}

func appendEntries(out []entry, path string, from int64, user string) ([]entry, error) {
	f, err := os.Open(path) // #nosec G304 -- a file of the cluster
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the file is only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e entry
		if !bytes.Contains(lines.Bytes(), []byte(user)) || json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // somebody else's; or the last line, which may be incomplete
		}
		if e.User.Username == user {
			out = append(out, e)
		}
	}
	return out, lines.Err()
}
