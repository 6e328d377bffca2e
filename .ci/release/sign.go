// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noLog keeps cosign from the public transparency log, which is neither a registry nor reachable from everywhere: the
// key alone vouches for a release.
var noLog = []string{"--use-signing-config=false", "--tlog-upload=false", "--yes"}

// publicKey returns the public key of COSIGN_KEY, or nothing if there is none. It needs the key's password.
func (r *release) publicKey(ctx context.Context) (string, error) {
	key := os.Getenv("COSIGN_KEY")
	if key == "" {
		return "", nil
	}
	public, err := r.tool(ctx, nil, "", "cosign", "public-key", "--key="+key)
	if err != nil {
		return "", fmt.Errorf("reading COSIGN_KEY with COSIGN_PASSWORD: %w", err)
	}
	return public, nil
}

// sign signs checksums.txt, and with it every file and, by images.txt, every image. What was pushed gets signatures
// of its own, and images their SBOM and provenance as attestations. Without COSIGN_KEY, nothing is signed.
func (r *release) sign(ctx context.Context, public string, built []image, chart string) error {
	key := os.Getenv("COSIGN_KEY")
	if key == "" {
		fmt.Fprintln(os.Stderr, "nothing is signed: COSIGN_KEY names no key")
		return nil
	}
	cosign := func(command string, args ...string) error {
		_, err := r.tool(ctx, nil, "", "cosign", append(append([]string{command, "--key=" + key}, noLog...), args...)...)
		return err
	}
	sums := filepath.Join(r.out, marker)
	if err := cosign("sign-blob", "--bundle="+sums+".sigstore.json", sums); err != nil {
		return err
	}
	// The release page needs it, and whoever has only the key of a secret store has no file of it.
	if err := r.file("cosign.pub", []byte(public)); err != nil {
		return err
	}
	if !r.push {
		return nil
	}
	if err := cosign("sign", chart); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-sign-")
	if err != nil {
		return fmt.Errorf("making a folder for attestations: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	origin, err := r.predicate(dir)
	if err != nil {
		return err
	}
	for _, i := range built {
		// With the images of its platforms.
		reference := r.repository + "/" + i.name + "@"
		if err := cosign("sign", "--recursive", reference+i.digest.String()); err != nil {
			return err
		}
		if err := cosign("attest", "--type=slsaprovenance1", "--predicate="+origin, reference+i.digest.String()); err != nil {
			return err
		}
		for name, digest := range i.platforms {
			n := slices.IndexFunc(r.sboms, func(f file) bool { return strings.HasPrefix(f.name, name+".") })
			if n < 0 {
				return fmt.Errorf("ko has written no SBOM for %s", name)
			}
			bill := filepath.Join(dir, r.sboms[n].name)
			if err := os.WriteFile(bill, r.sboms[n].content, 0o600); err != nil {
				return fmt.Errorf("writing an SBOM: %w", err)
			}
			if err := cosign("attest", "--type=spdxjson", "--predicate="+bill, reference+digest.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// predicate writes the provenance without its subjects, as cosign adds the image itself.
func (r *release) predicate(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.out, "provenance.json"))
	if err != nil {
		return "", fmt.Errorf("reading the provenance: %w", err)
	}
	var s struct {
		Predicate json.RawMessage `json:"predicate"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("reading the provenance: %w", err)
	}
	path := filepath.Join(dir, "provenance.json")
	if err := os.WriteFile(path, s.Predicate, 0o600); err != nil {
		return "", fmt.Errorf("writing the provenance: %w", err)
	}
	return path, nil
}
