// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// The grammar of image references that container runtimes share. Registries reject what does not
// match it (OCI distribution-spec, Pulling manifests).
var (
	imageHost   = regexp.MustCompile(`^(?:[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$`)
	imagePath   = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	imageTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	imageDigest = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
)

// maxRepository is the longest repository name that runtimes accept.
const maxRepository = 255

// defaultHost is the host of a reference without one, as Serving writes it when it resolves a tag.
const defaultHost = "index.docker.io"

// reference is a parsed image reference.
type reference struct {
	// repository is "host/path", with the host filled in.
	repository string
	tag        string
	// digest is "sha256:…".
	digest string
}

// parseReference reads "[host/]path[:tag][@digest]".
func parseReference(s string) (reference, bool) {
	var r reference
	rest, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if !imageDigest.MatchString(digest) {
			return reference{}, false
		}
		r.digest = digest
	}
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		rest, r.tag = rest[:colon], rest[colon+1:]
		if !imageTag.MatchString(r.tag) {
			return reference{}, false
		}
	}

	host, path := splitHost(rest)
	r.repository = host + "/" + path
	if len(r.repository) > maxRepository || !imageHost.MatchString(host) || !imagePath.MatchString(path) {
		return reference{}, false
	}
	return r, true
}

// pullHost is where Docker Hub is pulled from. It is the same registry as defaultHost.
const pullHost = "registry-1.docker.io"

// canonicalReference reads the same, and names the repository as registry clients do: Docker Hub has several names, and
// its official images may be written without "library/". Serving resolves digests with the same library.
func canonicalReference(s string) (reference, bool) {
	r, ok := parseReference(s)
	if !ok {
		return r, false
	}
	if path, is := strings.CutPrefix(r.repository, pullHost+"/"); is {
		r.repository = defaultHost + "/" + path
	}
	repository, err := name.NewRepository(r.repository, name.WeakValidation)
	if err != nil {
		return reference{}, false // the grammar of runtimes is narrower, except for the length of a name
	}
	r.repository = repository.Name()
	return r, true
}

// splitHost finds the host as runtimes do: the first part is a host if it could not be part of a
// path, or is "localhost".
func splitHost(s string) (host, path string) {
	first, others, found := strings.Cut(s, "/")
	switch {
	case !found:
		return defaultHost, "library/" + s
	case strings.ContainsAny(first, ".:") || first == "localhost" || first != strings.ToLower(first):
		return first, others
	default:
		return defaultHost, s
	}
}

// name is the last part of the repository.
func (r reference) name() string {
	return r.repository[strings.LastIndexByte(r.repository, '/')+1:]
}
