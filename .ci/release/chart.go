// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chartName is that of the Helm chart, and of its folder.
const chartName = "knative-cdevents"

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// chart writes the Helm chart with the version and the images of this release. Its bytes depend on nothing else.
func (r *release) chart(built []image) error {
	var files []file
	folder := os.DirFS(filepath.Join(r.root, "charts", chartName))
	// In the order of their names, which is always the same.
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == ".helmignore" {
			return err
		}
		raw, err := fs.ReadFile(folder, path)
		if err != nil {
			return fmt.Errorf("reading the chart: %w", err)
		}
		text := string(raw)
		switch path {
		case "Chart.yaml":
			text = chartVersion.ReplaceAllString(text, "version: "+strings.TrimPrefix(r.version, "v"))
			text = appVersion.ReplaceAllString(text, "appVersion: "+r.version)
		case "values.yaml":
			text, err = withImages(text, built)
		}
		if err != nil {
			return fmt.Errorf("the chart's %s: %w", path, err)
		}
		files = append(files, file{name: chartName + "/" + path, mode: 0o644, content: []byte(text)})
		return nil
	})
	if err != nil {
		return fmt.Errorf("packaging the chart: %w", err)
	}
	packed, err := gzipped(files)
	if err != nil {
		return err
	}
	return r.file(chartName+"-"+strings.TrimPrefix(r.version, "v")+".tgz", packed)
}
