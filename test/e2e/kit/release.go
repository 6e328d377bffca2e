// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Release is what "make release" wrote, with its images in a registry that the cluster pulls from.
type Release struct {
	// Folder has its files.
	Folder string
	// Version is its version, such as v0.1.0.
	Version string
	// Registry is where its images are.
	Registry string
	// URL is where its files are served on this machine, as on a release page.
	URL string

	server *httptest.Server
	// tools is a folder of programs for the PATH of commands.
	tools string
}

// MakeRelease makes the release of a checkout by its own Makefile, and serves its files until it is closed. Its images
// go to the registry, below a path.
func (k *Kit) MakeRelease(ctx context.Context, root, path string) (*Release, error) {
	registry := os.Getenv("KO_DOCKER_REPO")
	if k.Own() {
		address, err := k.Address(ctx, "registry")
		if err != nil {
			return nil, err
		}
		registry = strings.TrimPrefix(address, "http://")
	}
	if registry == "" {
		return nil, errors.New("set KO_DOCKER_REPO to a registry that you may push to and the cluster may pull from")
	}
	version, err := ownVersion(root)
	if err != nil {
		return nil, err
	}
	r := &Release{Folder: filepath.Join(root, "bin", "e2e"), Registry: registry + "/" + path, Version: version}
	own := "linux/" + runtime.GOARCH
	_, err = run(ctx, root, []string{"KO_DOCKER_REPO=" + r.Registry},
		"make", "release", "VERSION="+version, "RELEASE="+r.Folder, "PLATFORMS="+own, "PLUGIN_SYSTEMS="+own)
	if err != nil {
		return nil, fmt.Errorf("making a release of %s: %w", root, err)
	}
	if _, err := os.Stat(r.chart()); err != nil {
		return nil, fmt.Errorf("the release of %s has no chart; choose a later commit: %w", root, err)
	}
	if r.tools, err = os.MkdirTemp("", "release-tools-"); err != nil {
		return nil, fmt.Errorf("making a folder of programs: %w", err)
	}
	r.server = httptest.NewServer(http.FileServer(http.Dir(r.Folder)))
	r.URL = r.server.URL
	if err := k.addTools(ctx, r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the serving of the release.
func (r *Release) Close() {
	r.server.Close()
	_ = os.RemoveAll(r.tools) // a leftover temporary folder does no harm
}

// chart is the path of the packaged chart.
func (r *Release) chart() string {
	return filepath.Join(r.Folder, "knative-cdevents-"+strings.TrimPrefix(r.Version, "v")+".tgz")
}

var sidecarVersion = regexp.MustCompile(`(?m)/clients/sidecar (v\d+\.\d+\.\d+)$`)

// ownVersion is the version that the modules of a checkout require of each other, which a release must have.
func ownVersion(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the version of a checkout: %w", err)
	}
	found := sidecarVersion.FindSubmatch(raw)
	if found == nil {
		return "", fmt.Errorf("go.mod of %s requires no version of clients/sidecar", root)
	}
	return string(found[1]), nil
}

// plainHTTP lets Helm talk to the registry of the cluster, which has no TLS. Nothing else differs from Helm.
const plainHTTP = `#!/bin/sh
case " $* " in
  *" oci://"*) exec '%[1]s' helm "$@" --plain-http ;;
  *) exec '%[1]s' helm "$@" ;;
esac
`

// addTools makes a PATH with kubectl, Helm and the plugin of the release.
func (k *Kit) addTools(ctx context.Context, r *Release) error {
	if k.Own() {
		assets, err := run(ctx, k.root, nil, k.program, "assets")
		if err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(strings.TrimSpace(assets), "kubectl"), filepath.Join(r.tools, "kubectl")); err != nil {
			return fmt.Errorf("adding kubectl: %w", err)
		}
	}
	helm := fmt.Appendf(nil, plainHTTP, k.tool())
	if err := os.WriteFile(filepath.Join(r.tools, "helm"), helm, 0o755); err != nil {
		return fmt.Errorf("adding Helm: %w", err)
	}
	archive := filepath.Join(r.Folder, "kubectl-cdevents-linux-"+runtime.GOARCH+".tar.gz")
	if _, err := run(ctx, r.tools, nil, "tar", "-xzf", archive, "kubectl-cdevents"); err != nil {
		return fmt.Errorf("unpacking the plugin: %w", err)
	}
	return nil
}

// Checkout makes a clone of this checkout at a commit, a tag or a branch, in a temporary folder. Without a name, it is
// the newest tag of a version.
func (k *Kit) Checkout(ctx context.Context, name string) (string, error) {
	if name == "" {
		out, err := run(ctx, k.root, nil, "git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*")
		if err != nil {
			return "", fmt.Errorf("there is no tag of a version to upgrade from; name a commit, as in FROM=HEAD~20: %w", err)
		}
		name = strings.TrimSpace(out)
	}
	commit, err := run(ctx, k.root, nil, "git", "rev-parse", "--verify", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("FROM is %q, which is no commit of this repository: %w", name, err)
	}
	folder, err := os.MkdirTemp("", "release-from-")
	if err != nil {
		return "", fmt.Errorf("making a folder for a clone: %w", err)
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--no-checkout", k.root, folder},
		{"-C", folder, "checkout", "--quiet", strings.TrimSpace(commit)},
	} {
		if _, err := run(ctx, k.root, nil, "git", args...); err != nil {
			_ = os.RemoveAll(folder) // a leftover temporary folder does no harm
			return "", fmt.Errorf("cloning %s: %w", name, err)
		}
	}
	return folder, nil
}

// Documented returns the block of commands that a document of this checkout marks for a test:
//
//	<!-- test: NAME -->
//	```sh
func (k *Kit) Documented(document, name string) (string, error) {
	raw, err := os.ReadFile(k.Path(filepath.FromSlash(document)))
	if err != nil {
		return "", fmt.Errorf("reading the commands of a document: %w", err)
	}
	_, after, found := strings.Cut(string(raw), "<!-- test: "+name+" -->\n```sh\n")
	commands, _, ends := strings.Cut(after, "\n```\n")
	if !found || !ends {
		return "", fmt.Errorf("%s has no commands that are marked with <!-- test: %s -->", document, name)
	}
	return commands, nil
}

var (
	published = regexp.MustCompile(`https://github\.com/\S+/releases/download/v\d+\.\d+\.\d+`)
	chartOf   = regexp.MustCompile(`--version \d+\.\d+\.\d+`)
	packaged  = regexp.MustCompile(`release/knative-cdevents-\d+\.\d+\.\d+\.tgz`)
)

// home is where the workflow of releases pushes images and the chart.
const home = "ghcr.io/knative-cdevents/knative-cdevents"

// Run runs documented commands with this release: its files and its registry take the place of those that are
// published. They run in a folder.
func (r *Release) Run(ctx context.Context, folder, commands string) (string, error) {
	commands = published.ReplaceAllLiteralString(commands, r.URL)
	commands = chartOf.ReplaceAllLiteralString(commands, "--version "+strings.TrimPrefix(r.Version, "v"))
	commands = packaged.ReplaceAllLiteralString(commands, r.chart())
	for _, registry := range []string{home, "REGISTRY"} {
		commands = strings.ReplaceAll(commands, "oci://"+registry+"/", "oci://"+r.Registry+"/")
	}
	path := "PATH=" + r.tools + string(filepath.ListSeparator) + os.Getenv("PATH")
	out, err := run(ctx, folder, []string{path, "RELEASE=" + r.URL}, "bash", "-euo", "pipefail", "-c", commands)
	if err != nil {
		return "", fmt.Errorf("%w\nthe commands were\n%s", err, commands)
	}
	return out, nil
}
