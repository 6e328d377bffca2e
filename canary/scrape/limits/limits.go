// SPDX-License-Identifier: Apache-2.0

// Package limits says how much of a pod is read at once. It stands apart from what reads, so that who only checks
// settings has no parser of expositions.
package limits

import "time"

// Reading has the limits of one reading.
type Reading struct {
	// Timeout of the whole reading.
	Timeout time.Duration
	// Body is the maximum size of an answer in bytes, after decompression.
	Body int64
	// Series is the maximum number of series that mappings name.
	Series int
}

// Default applies unless config-canary sets others.
var Default = Reading{Timeout: 5 * time.Second, Body: 4 << 20, Series: 10_000}
