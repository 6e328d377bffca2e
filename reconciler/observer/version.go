// SPDX-License-Identifier: Apache-2.0

package observer

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Older says whether the resourceVersion a is older than b. It is false if they
// cannot be compared.
func Older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// Newest returns the later one of two resourceVersions, or the one that is known.
func Newest(a, b string) string {
	if _, err := resourceversion.CompareResourceVersion(a, a); err != nil || Older(a, b) {
		return b
	}
	return a
}

// WentBack says whether an object that an informer knew in one version has an
// older one now. An informer lists nothing that is older than what it knew, so
// this is never a matter of caches.
func WentBack(before, now string) bool { return Older(now, before) }

// newer says whether the resourceVersion a is newer than b. Versions that cannot be
// compared count as newer.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}
