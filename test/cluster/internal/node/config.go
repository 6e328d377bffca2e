// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"path/filepath"
	"text/template"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

//go:embed files
var files embed.FS

// config renders one of the embedded files to the folder etc. It returns the path, and the content, so that the daemon
// that reads it is restarted when it changes.
func (n *Node) config(name string, values map[string]string) (path, content string, err error) {
	return config(n.dir, name, values)
}

func config(dir, name string, values map[string]string) (path, content string, err error) {
	content, err = render(dir, name, values)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, "etc", name)
	return path, content, store.PublishFile(path, []byte(content), 0o600)
}

// render is for files that need only the node's names.
func (n *Node) render(name string) (string, error) {
	return render(n.dir, name, nil)
}

func render(dir, name string, values map[string]string) (string, error) {
	all := map[string]string{
		"Dir": dir, "Name": Name, "IP": IP, "DNS": DNS, "Cgroup": cgroupName, "Registry": RegistryHost,
		"PodCIDR": podCIDR, "NodePodCIDR": nodePodCIDR, "ServiceCIDR": serviceCIDR,
	}
	maps.Copy(all, values)
	tmpl, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return "", fmt.Errorf("parsing the embedded %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := tmpl.ExecuteTemplate(&out, name, all); err != nil {
		return "", fmt.Errorf("filling in %s: %w", name, err)
	}
	return out.String(), nil
}
