// SPDX-License-Identifier: Apache-2.0

package dashboards

import _ "embed" // the rules

// Rules are the recording and alerting rules, as a file that Prometheus reads.
//
//go:embed alerts/rules.yaml
var Rules []byte
