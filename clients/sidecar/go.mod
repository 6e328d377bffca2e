module github.com/knative-cdevents/knative-cdevents/clients/sidecar

go 1.26.0

require (
	github.com/agnivade/levenshtein v1.2.1
	github.com/knative-cdevents/knative-cdevents/clients/placement v0.1.0
	golang.org/x/sync v0.22.0
)

// Only for builds in this repository: other modules ignore it, and get the version above.
replace github.com/knative-cdevents/knative-cdevents/clients/placement => ../placement
