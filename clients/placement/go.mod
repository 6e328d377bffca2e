module github.com/knative-cdevents/knative-cdevents/clients/placement

go 1.26.0
