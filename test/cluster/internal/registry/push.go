// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// Image is an image to push under a name.
type Image struct {
	Name       string
	Tag        string
	Layers     []Layer
	Entrypoint []string
	User       string
	Env        []string
}

// Registry is a registry over plain HTTP, which is used on the cluster's own link only.
type Registry struct {
	Host string
	http *http.Client
}

// New returns the registry at host:port.
func New(host string) *Registry {
	return &Registry{Host: host, http: &http.Client{Timeout: 2 * time.Minute}}
}

// Ready returns nil if the registry answers.
func (r *Registry) Ready(ctx context.Context) error {
	_, err := r.do(ctx, http.MethodGet, "http://"+r.Host+"/v2/", "", nil, http.StatusOK)
	return err
}

// Has reports whether the registry has the image of a reference with a digest.
func (r *Registry) Has(ctx context.Context, ref string) bool {
	name, digest, ok := strings.Cut(strings.TrimPrefix(ref, r.Host+"/"), "@")
	if !ok {
		return false
	}
	_, err := r.do(ctx, http.MethodHead, r.manifest(name, digest), "", nil, http.StatusOK)
	return err == nil
}

// Push uploads the image, tags it and returns the reference with its digest.
func (r *Registry) Push(ctx context.Context, img Image) (string, error) {
	type descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	var layers []descriptor
	var diffs []string
	for _, l := range img.Layers {
		if err := r.blob(ctx, img.Name, l.Digest, l.Blob); err != nil {
			return "", err
		}
		layers = append(layers, descriptor{layerType, l.Digest, len(l.Blob), l.Annotations})
		diffs = append(diffs, l.DiffID)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": img.User, "Entrypoint": img.Entrypoint, "Env": img.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the image's configuration: %w", err)
	}
	if err := r.blob(ctx, img.Name, digest(config), config); err != nil {
		return "", err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor{MediaType: configType, Digest: digest(config), Size: len(config)}, "layers": layers,
	})
	if err != nil {
		return "", fmt.Errorf("encoding the image's manifest: %w", err)
	}
	if _, err := r.do(ctx, http.MethodPut, r.manifest(img.Name, img.Tag), manifestType, manifest, http.StatusCreated); err != nil {
		return "", fmt.Errorf("pushing %s: %w", img.Name, err)
	}
	return r.Host + "/" + img.Name + "@" + digest(manifest), nil
}

// Retag adds a tag to the image of a reference with a digest.
func (r *Registry) Retag(ctx context.Context, ref, tag string) error {
	name, digest, _ := strings.Cut(strings.TrimPrefix(ref, r.Host+"/"), "@")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.manifest(name, digest), nil)
	if err != nil {
		return fmt.Errorf("tagging %s: %w", ref, err)
	}
	req.Header.Set("Accept", strings.Join([]string{manifestType, indexType, "application/vnd.docker.distribution.manifest.v2+json"}, ", "))
	resp, err := r.http.Do(req)
	if err != nil {
		return fmt.Errorf("tagging %s: %w", ref, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body is read to its end
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("tagging %s: the registry returned %s (%w)", ref, resp.Status, err)
	}
	_, err = r.do(ctx, http.MethodPut, r.manifest(name, tag), resp.Header.Get("Content-Type"), body, http.StatusCreated)
	return err
}

func (r *Registry) manifest(name, reference string) string {
	return "http://" + r.Host + "/v2/" + name + "/manifests/" + reference
}

func (r *Registry) blob(ctx context.Context, name, digest string, data []byte) error {
	base := "http://" + r.Host + "/v2/" + name + "/blobs/"
	if _, err := r.do(ctx, http.MethodHead, base+digest, "", nil, http.StatusOK); err == nil {
		return nil
	}
	location, err := r.do(ctx, http.MethodPost, base+"uploads/", "", nil, http.StatusAccepted)
	if err != nil {
		return fmt.Errorf("starting an upload: %w", err)
	}
	u, err := url.Parse(location)
	if err != nil {
		return fmt.Errorf("the registry's upload address: %w", err)
	}
	q := u.Query()
	q.Set("digest", digest)
	u.RawQuery = q.Encode()
	if _, err := r.do(ctx, http.MethodPut, u.String(), "application/octet-stream", data, http.StatusCreated); err != nil {
		return fmt.Errorf("uploading a layer: %w", err)
	}
	return nil
}

// do returns the Location header, the only one that callers need.
func (r *Registry) do(ctx context.Context, method, address, kind string, body []byte, want int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("requesting the registry: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if method == http.MethodHead {
		req.Header.Set("Accept", manifestType+", "+indexType+", application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // only an error's text is used
	if resp.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // only for the error below
		return "", fmt.Errorf("%s %s: the registry returned %s: %s", method, address, resp.Status, text)
	}
	return resp.Header.Get("Location"), nil
}
