// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image is one of the release, for all platforms.
type image struct {
	// program is its import path, and name the last part of it.
	program, name string
	digest        v1.Hash
	// reference is how manifests name it.
	reference string
	// platforms are its images for each platform, by the name of their SBOM.
	platforms map[string]v1.Hash
}

// images builds the images of all programs that the manifests name, into an OCI layout, and pushes them if there is a
// registry.
func (r *release) images(ctx context.Context, licenses []byte) ([]image, error) {
	programs, err := r.programs()
	if err != nil {
		return nil, err
	}
	cache, err := os.MkdirTemp("", "release-ko-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for ko: %w", err)
	}
	defer func() { _ = os.RemoveAll(cache) }()
	base, err := r.base(filepath.Join(cache, "img"), licenses)
	if err != nil {
		return nil, fmt.Errorf("making the base image: %w", err)
	}
	dir := filepath.Join(r.out, "images")
	// ko takes the layout for a repository, whose name has no capital letters. So it must not see where this clone is.
	layout, err := filepath.Rel(r.root, dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of images: %w", err)
	}
	sboms := filepath.Join(cache, "sbom")
	if err := os.Mkdir(sboms, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of SBOMs: %w", err)
	}
	// ko finds the base by its digest in its cache, and asks no registry for it.
	env := []string{
		"KOCACHE=" + cache, "KO_DOCKER_REPO=" + r.repository,
		"KO_DEFAULTBASEIMAGE=knative-cdevents.dev/base@" + base.String(),
	}
	var questions []string
	for _, p := range programs {
		questions = append(questions, "ko://"+p)
	}
	// ko answers documents in their order.
	out, err := r.tool(ctx, env, strings.Join(questions, "\n---\n")+"\n", "ko", "resolve",
		"--push=false", "--oci-layout-path="+layout,
		"--sbom-dir="+sboms, "--platform="+strings.Join(r.platforms, ","), "--jobs=1",
		"--image-annotation=org.opencontainers.image.version="+r.version,
		"--image-annotation=org.opencontainers.image.source=https://"+module,
		"--image-annotation=org.opencontainers.image.licenses=Apache-2.0", "-f", "-")
	if err != nil {
		return nil, err
	}
	var built []image
	for answer := range strings.SplitSeq(out, "---") {
		if answer = strings.TrimSpace(answer); answer == "" {
			continue
		}
		_, digest, _ := strings.Cut(answer, "@")
		if len(built) == len(programs) {
			return nil, fmt.Errorf("ko answered more than it was asked: %s", out)
		}
		i := image{program: programs[len(built)]}
		i.name = i.program[strings.LastIndex(i.program, "/")+1:]
		i.reference = r.repository + "/" + i.name + ":" + r.version + "@" + digest
		if i.digest, err = v1.NewHash(digest); err != nil {
			return nil, fmt.Errorf("reading ko's answer %q: %w", answer, err)
		}
		built = append(built, i)
	}
	if len(built) != len(programs) {
		return nil, fmt.Errorf("ko answered %d of %d questions: %s", len(built), len(programs), out)
	}
	if err := r.publish(ctx, dir, built); err != nil {
		return nil, err
	}
	if err := r.bills(sboms); err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, i := range built {
		fmt.Fprintln(&list, i.reference)
	}
	return built, r.file("images.txt", []byte(list.String()))
}

// bills writes the SBOMs that ko has made into one archive.
func (r *release) bills(dir string) error {
	held, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the SBOMs: %w", err)
	}
	for _, f := range held {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name())) //nolint:gosec // just written by ko
		if err != nil {
			return fmt.Errorf("reading an SBOM: %w", err)
		}
		r.sboms = append(r.sboms, file{name: f.Name(), mode: 0o644, content: raw})
	}
	packed, err := gzipped(r.sboms)
	if err != nil {
		return err
	}
	return r.file("sbom.tar.gz", packed)
}

// publish gives the images of the layout their names, in order, as ko builds side by side, and pushes them.
func (r *release) publish(ctx context.Context, dir string, built []image) error {
	path, err := layout.FromPath(dir)
	if err != nil {
		return fmt.Errorf("reading the images: %w", err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		return fmt.Errorf("reading the images: %w", err)
	}
	for n, i := range built {
		found, err := partial.FindManifests(index, match.Digests(i.digest))
		if err != nil {
			return fmt.Errorf("reading image %s: %w", i.name, err)
		}
		if len(found) != 1 {
			return fmt.Errorf("image %s is %d times in %s", i.name, len(found), dir)
		}
		found[0].Annotations = map[string]string{"org.opencontainers.image.ref.name": i.name + ":" + r.version}
		if err := path.RemoveDescriptors(match.Digests(i.digest)); err != nil {
			return fmt.Errorf("naming image %s: %w", i.name, err)
		}
		if err := path.AppendDescriptor(found[0]); err != nil {
			return fmt.Errorf("naming image %s: %w", i.name, err)
		}
		whole, platforms, err := openImage(index, i, found[0].MediaType)
		if err != nil {
			return fmt.Errorf("reading image %s: %w", i.name, err)
		}
		built[n].platforms = platforms
		if !r.push {
			continue
		}
		tag, err := name.NewTag(r.repository + "/" + i.name + ":" + r.version)
		if err != nil {
			return fmt.Errorf("pushing to KO_DOCKER_REPO: %w", err)
		}
		login := remote.WithAuthFromKeychain(authn.DefaultKeychain)
		if err := remote.Push(tag, whole, remote.WithContext(ctx), login); err != nil {
			return fmt.Errorf("pushing %s: %w", tag, err)
		}
	}
	return nil
}

// openImage returns an image, and its images for each platform. ko makes an index only for more than one.
func openImage(index v1.ImageIndex, i image, kind types.MediaType) (remote.Taggable, map[string]v1.Hash, error) {
	platforms := map[string]v1.Hash{}
	if !kind.IsIndex() {
		single, err := index.Image(i.digest)
		if err != nil {
			return nil, nil, err
		}
		config, err := single.ConfigFile()
		if err != nil {
			return nil, nil, err
		}
		platforms[i.name+"-"+config.OS+"-"+config.Architecture] = i.digest
		return single, platforms, nil
	}
	whole, err := index.ImageIndex(i.digest)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := whole.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	for _, m := range manifest.Manifests {
		platforms[i.name+"-"+m.Platform.OS+"-"+m.Platform.Architecture] = m.Digest
	}
	return whole, platforms, nil
}

// base writes the base image to a layout: certificate authorities, a user that is not root, and licenses.
func (r *release) base(dir string, licenses []byte) (v1.Hash, error) {
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("reading the license: %w", err)
	}
	const users = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	const bundleFile = "etc/ssl/certs/ca-certificates.crt"
	files := []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: []byte(users)},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: bundleFile, mode: 0o644, content: authorities()},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o755, owner: 65532},
		{name: "licenses/", mode: 0o755},
		{name: "licenses/LICENSE", mode: 0o644, content: own},
		{name: "licenses/licenses.txt", mode: 0o644, content: licenses},
		{name: "tmp/", mode: 0o777 | 0o1000},
	}
	raw, err := tarOf(files)
	if err != nil {
		return v1.Hash{}, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("making its layer: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("writing it: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.platforms {
		system, architecture, found := strings.Cut(p, "/")
		if !found {
			return v1.Hash{}, fmt.Errorf("%q is no platform; one is like linux/amd64", p)
		}
		img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if img, err = mutate.ConfigFile(img, &v1.ConfigFile{
			OS: system, Architecture: architecture, RootFS: v1.RootFS{Type: "layers"},
			Config: v1.Config{
				User: "65532:65532", WorkingDir: "/home/nonroot",
				Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE=/" + bundleFile},
			},
		}); err != nil {
			return v1.Hash{}, fmt.Errorf("describing it: %w", err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return v1.Hash{}, fmt.Errorf("adding its layer: %w", err)
		}
		// ko looks for each platform by its own digest.
		if err := path.AppendImage(img); err != nil {
			return v1.Hash{}, fmt.Errorf("writing it: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: architecture}},
		})
	}
	if err := path.AppendIndex(index); err != nil {
		return v1.Hash{}, fmt.Errorf("writing it: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("reading its digest: %w", err)
	}
	return digest, nil
}

// authorities are those that Mozilla trusts, in the version of go.mod. Those that it trusts only in part are left
// out, as a file cannot say for which certificates.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}

// file is one of an archive. A folder has a name that ends in a slash.
type file struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// tarOf returns the same bytes for the same files, whoever makes it, and when.
func tarOf(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)),
			ModTime: epoch,
			Format:  tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("adding %s to an archive: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("adding %s to an archive: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("ending an archive: %w", err)
	}
	return out.Bytes(), nil
}

// programs are those that the manifests name as ko://.
func (r *release) programs() ([]string, error) {
	var out []string
	for _, b := range bundles {
		text, err := r.read(b)
		if err != nil {
			return nil, err
		}
		for _, found := range koReference.FindAllStringSubmatch(text, -1) {
			out = append(out, found[1])
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no manifest names an image as ko://")
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// goVersion is the toolchain that builds everything: another one gives other bytes.
func goVersion() string { return runtime.Version() }
