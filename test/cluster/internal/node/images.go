// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// NonRoot is the user of images; runAsNonRoot requires a number, not a name.
const NonRoot = "65532:65532"

// baseFiles are the files that a static program expects.
func baseFiles() ([]registry.File, error) {
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	roots, err := os.ReadFile(bundle)
	if err != nil {
		return nil, fmt.Errorf("reading the machine's certificate authorities (apt-get install ca-certificates): %w", err)
	}
	return []registry.File{
		{Name: "etc", Dir: true, Mode: 0o755},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{Name: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{Name: "etc/ssl", Dir: true, Mode: 0o755},
		{Name: "etc/ssl/certs", Dir: true, Mode: 0o755},
		{Name: bundle[1:], Mode: 0o644, Content: roots},
		{Name: "tmp", Dir: true, Mode: 0o777 | 0o1000},
		{Name: "home", Dir: true, Mode: 0o755},
		{Name: "home/nonroot", Dir: true, Mode: 0o777},
	}, nil
}

// BaseImage returns ko's base image.
func BaseImage() string { return RegistryHost + "/base:latest" }

func (n *Node) imageRef(name string) string { return RegistryHost + "/" + name + ":latest" }

// Program is what an image runs, and as which user.
type Program struct {
	// Name is the name of the image.
	Name       string
	Entrypoint []string
	User       string
	// Package is the content of package.yaml, which makes the image a package of Crossplane; empty for other images.
	Package string
}

// key identifies the image of a program whose files have a key.
func (p Program) key(files string) string {
	inputs := []string{files, strings.Join(p.Entrypoint, " "), p.User}
	if p.Package != "" {
		inputs = append(inputs, p.Package)
	}
	return store.Key(inputs...)
}

// packageLayer is the layer that Crossplane reads.
func (p Program) packageLayer() (registry.Layer, error) {
	layer, err := registry.NewLayer([]registry.File{{Name: "package.yaml", Mode: 0o644, Content: []byte(p.Package)}})
	layer.Annotations = map[string]string{"io.crossplane.xpkg": "base"}
	return layer, err
}

// PushImage pushes files as a layer on top of the base, unless the registry already has them. The key identifies the
// sources of the files.
func (n *Node) PushImage(ctx context.Context, p Program, key string, files ...registry.File) (string, error) {
	return n.pushLayer(ctx, p, p.key(key), func() (registry.Layer, error) {
		return registry.NewLayer(files)
	})
}

// PushMaven builds a Maven module, and before it those that it needs, and pushes its image, unless the registry already
// has it.
func (n *Node) PushMaven(ctx context.Context, p Program, m build.MavenModule) (string, error) {
	key, err := n.builder.MavenKey(ctx, m)
	if err != nil {
		return "", err
	}
	return n.pushLayer(ctx, p, p.key(key), func() (registry.Layer, error) {
		files, err := n.builder.Maven(ctx, m, key)
		if err != nil {
			return registry.Layer{}, err
		}
		return registry.NewLayer(files)
	})
}

// PushTar pushes a user's layer on top of the base.
func (n *Node) PushTar(ctx context.Context, p Program, tarFile string) (string, error) {
	layer, err := registry.LayerFrom(tarFile)
	if err != nil {
		return "", err
	}
	return n.pushLayer(ctx, p, p.key(layer.Digest), func() (registry.Layer, error) {
		return layer, nil
	})
}

func (n *Node) pushLayer(ctx context.Context, p Program, key string, top func() (registry.Layer, error)) (string, error) {
	reg := n.Registry()
	files, err := baseFiles()
	if err != nil {
		return "", err
	}
	base, err := registry.NewLayer(files)
	if err != nil {
		return "", err
	}
	memory := n.builder.Store().Image(strings.ReplaceAll(p.Name, "/", "_"), store.Key(key, base.Digest))
	if ref, err := os.ReadFile(memory); err == nil && reg.Has(ctx, string(ref)) { //nolint:gosec // a path in the cache
		return string(ref), reg.Retag(ctx, string(ref), "latest")
	}
	img := registry.Image{
		Name: p.Name, Tag: "latest", Layers: []registry.Layer{base}, Entrypoint: p.Entrypoint, User: p.User,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
	if top != nil {
		layer, err := top()
		if err != nil {
			return "", err
		}
		img.Layers = append(img.Layers, layer)
	}
	if p.Package != "" {
		layer, err := p.packageLayer()
		if err != nil {
			return "", err
		}
		img.Layers = append(img.Layers, layer)
	}
	ref, err := reg.Push(ctx, img)
	if err != nil {
		return "", err
	}
	n.say.Say("pushed %s", ref)
	return ref, store.PublishFile(memory, []byte(ref), 0o600)
}

// baseImages pushes what every pod needs: the base of other images, and the sandbox's "pause".
func (n *Node) baseImages(ctx context.Context) error {
	if _, err := n.pushLayer(ctx, Program{Name: "base", User: NonRoot}, "base", nil); err != nil {
		return err
	}
	dir, err := n.builder.Dir(ctx, build.Pause)
	if err != nil {
		return err
	}
	_, err = n.PushImage(ctx, Program{Name: "pause", Entrypoint: []string{"/pause"}, User: NonRoot}, filepath.Base(dir),
		registry.File{Name: "pause", Mode: 0o755, From: filepath.Join(dir, "pause")})
	return err
}

// PushBinary pushes a program of a unit.
func (n *Node) PushBinary(ctx context.Context, u build.Unit, program string) (string, error) {
	return n.PushProgram(ctx, u, Program{Name: program, Entrypoint: []string{"/" + program}, User: NonRoot})
}

// PushProgram pushes the program of a unit that the entry point names, with more files below its root.
func (n *Node) PushProgram(ctx context.Context, u build.Unit, p Program, more ...registry.File) (string, error) {
	dir, err := n.builder.Dir(ctx, u)
	if err != nil {
		return "", err
	}
	binary := strings.TrimPrefix(p.Entrypoint[0], "/")
	files := append([]registry.File{{Name: binary, Mode: 0o755, From: filepath.Join(dir, binary)}}, more...)
	return n.PushImage(ctx, p, filepath.Base(dir), files...)
}
