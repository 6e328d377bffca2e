module github.com/knative-cdevents/knative-cdevents/test/cluster/parts/targets

go 1.26.0
