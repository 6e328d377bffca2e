// SPDX-License-Identifier: Apache-2.0

// Package store lays out the user's cache folder, which holds finished builds.
//
// Invariant: a path that Publish created is complete. It appears by rename only, so an interrupt, a power cut
// or a concurrent program never leaves half a build that a later run would trust.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Store is the cache folder.
type Store struct {
	root string
}

// Open returns the store in the user's cache folder, and creates it if it is missing.
func Open() (*Store, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return At(filepath.Join(base, "knative-cdevents"))
}

// At returns the store in the given folder.
func At(root string) (*Store, error) {
	for _, d := range []string{"bin", "images", "registry", "log", "ko"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o750); err != nil {
			return nil, fmt.Errorf("creating the cache folder: %w", err)
		}
	}
	return &Store{root: root}, nil
}

// Root returns the cache folder itself.
func (s *Store) Root() string { return s.root }

// Bin returns the folder for the binaries of one build unit.
func (s *Store) Bin(unit, key string) string {
	return filepath.Join(s.root, "bin", unit+"@"+key)
}

// Image returns the file that records the digest of a pushed image.
func (s *Store) Image(name, key string) string {
	return filepath.Join(s.root, "images", name+"@"+key)
}

// Registry returns the storage of the image registry: images outlive the clusters that pull them.
func (s *Store) Registry() string { return filepath.Join(s.root, "registry") }

// Ko returns the folder with ko's settings, which replace those in its working directory.
func (s *Store) Ko() string { return filepath.Join(s.root, "ko") }

// Log returns the path of a build's output.
func (s *Store) Log(name string) string { return filepath.Join(s.root, "log", name+".log") }

// Key hashes everything that a build depends on into a short name.
func Key(inputs ...string) string {
	h := sha256.New()
	for _, in := range inputs {
		// The length tells ("ab","c") from ("a","bc"). Writing to a hash never fails.
		_, _ = fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Exists reports whether a published path exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// PublishDir lets fill create the content of a folder, and moves it to path in one step.
func PublishDir(path string, fill func(dir string) error) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".part-")
	if err != nil {
		return fmt.Errorf("creating a folder to build in: %w", err)
	}
	defer removeLeft(tmp)
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("publishing %s: %w", path, err)
	}
	return nil
}

// PublishFile writes a file in one step.
func PublishFile(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".part-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer removeLeft(tmp.Name())
	_, werr := tmp.Write(data)
	err = errors.Join(werr, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// removeLeft removes a temporary path; after a rename there is none.
func removeLeft(path string) { _ = os.RemoveAll(path) }
