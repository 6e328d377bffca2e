// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"os"

	"golang.org/x/sys/windows"
)

// obeysStyles reports whether a console shows styles. It has to be told to, and those before Windows 10 do not.
func obeysStyles(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
