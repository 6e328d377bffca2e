// Package store lays out the user's cache folder: what was built once and need not be built again.
//
// Invariant: a path that Publish made is complete. It appears by rename only, so an interrupt, a power cut
// or two programs at work at the same time never leave half a build behind that a later run would trust.
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

// Open returns the store in the user's cache folder, made if it is missing.
func Open() (*Store, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return At(filepath.Join(base, "knative-cdevents"))
}

// At returns the store in a folder of the caller's choice.
func At(root string) (*Store, error) {
	for _, d := range []string{"bin", "images", "registry", "log", "ko"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o750); err != nil {
			return nil, fmt.Errorf("making the cache folder: %w", err)
		}
	}
	return &Store{root: root}, nil
}

// Root is the cache folder itself.
func (s *Store) Root() string { return s.root }

// Bin is where the binaries of one build unit lie.
func (s *Store) Bin(unit, key string) string {
	return filepath.Join(s.root, "bin", unit+"@"+key)
}

// Image is the file that remembers the digest of a pushed image.
func (s *Store) Image(name, key string) string {
	return filepath.Join(s.root, "images", name+"@"+key)
}

// Registry is the storage of the image registry: images outlive the clusters that pull them.
func (s *Store) Registry() string { return filepath.Join(s.root, "registry") }

// Ko is the folder whose settings ko obeys, instead of those of the folder where it runs.
func (s *Store) Ko() string { return filepath.Join(s.root, "ko") }

// Log is where the output of a build goes.
func (s *Store) Log(name string) string { return filepath.Join(s.root, "log", name+".log") }

// Key condenses all that a build depends on into a short name.
func Key(inputs ...string) string {
	h := sha256.New()
	for _, in := range inputs {
		// The length keeps ("ab","c") apart from ("a","bc"). A hash never fails to write.
		_, _ = fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Exists tells whether a published path is there.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// PublishDir lets fill make the content of a folder and moves it to path in one step.
func PublishDir(path string, fill func(dir string) error) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".part-")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
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

// removeLeft takes away a temporary path; after a rename there is nothing left and nothing to report.
func removeLeft(path string) { _ = os.RemoveAll(path) }
