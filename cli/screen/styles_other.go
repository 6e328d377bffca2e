// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package screen

import "os"

// obeysStyles reports whether a terminal shows styles. All do, but for those of Windows.
func obeysStyles(*os.File) bool { return true }
