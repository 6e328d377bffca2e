// SPDX-License-Identifier: Apache-2.0

// Command app is the next version of the sample application: another image of the same name.
package main

import "github.com/knative-cdevents/knative-cdevents/test/apps/web"

func main() { web.Main("two") }
