module github.com/knative-cdevents/knative-cdevents/test/cluster/parts/pause

go 1.26.0
