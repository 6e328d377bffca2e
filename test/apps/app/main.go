// SPDX-License-Identifier: Apache-2.0

// Command app is the first version of the sample application.
package main

import "github.com/knative-cdevents/knative-cdevents/test/apps/web"

func main() { web.Main("one") }
