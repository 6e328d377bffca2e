// SPDX-License-Identifier: Apache-2.0

// Package registry builds small images from files and pushes them to the cluster's registry.
//
// Invariant: equal input gives an equal digest: times, owners and order in a layer are fixed.
package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// File is one entry of a layer: content, a file on the machine, a link, or a folder.
type File struct {
	Name    string
	Mode    fs.FileMode
	Content []byte
	From    string
	Link    string
	Dir     bool
}

// Layer is a compressed layer with its two digests in the image format.
type Layer struct {
	Blob   []byte
	Digest string
	DiffID string
	// Annotations describe the layer in the image's manifest.
	Annotations map[string]string
}

// NewLayer packs files.
func NewLayer(files []File) (Layer, error) {
	return compress(func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, f := range files {
			if err := add(tw, f); err != nil {
				return fmt.Errorf("packing %s: %w", f.Name, err)
			}
		}
		return tw.Close()
	})
}

// LayerFrom uses a tar file unchanged.
func LayerFrom(tarFile string) (Layer, error) {
	return compress(func(w io.Writer) error {
		f, err := os.Open(tarFile) //nolint:gosec // the user's own file
		if err != nil {
			return fmt.Errorf("reading the layer: %w", err)
		}
		_, err = io.Copy(w, f)
		return errors.Join(err, f.Close())
	})
}

func compress(fill func(io.Writer) error) (Layer, error) {
	var blob bytes.Buffer
	diff := sha256.New()
	gz, err := gzip.NewWriterLevel(&blob, gzip.BestSpeed)
	if err != nil {
		return Layer{}, fmt.Errorf("compressing a layer: %w", err)
	}
	if err := errors.Join(fill(io.MultiWriter(gz, diff)), gz.Close()); err != nil {
		return Layer{}, err
	}
	return Layer{Blob: blob.Bytes(), Digest: digest(blob.Bytes()), DiffID: "sha256:" + hex.EncodeToString(diff.Sum(nil))}, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func add(tw *tar.Writer, f File) error {
	h := &tar.Header{Name: path.Clean(f.Name), Mode: int64(f.Mode), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case f.Dir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return tw.WriteHeader(h)
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		return tw.WriteHeader(h)
	}
	data := f.Content
	if f.From != "" {
		var err error
		if data, err = os.ReadFile(f.From); err != nil {
			return err
		}
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}
