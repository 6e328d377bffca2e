// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
)

// The events of CDEvents 0.4. They differ from 0.5 in two ways: the context has "version", not
// "specversion", and the subject must state its type.

func context04(f facts) api.ContextV04 {
	return api.ContextV04{
		Context:      api.Context{SharedContext: shared(f), Version: v04.SpecVersion},
		ContextLinks: api.ContextLinks{ChainId: f.chain, Links: f.links},
	}
}

// subject04 has type "service", or for a custom event, for example, "knative-revision" (CDEvents
// spec.md of 0.4, type (subject)).
func subject04(f facts) api.SubjectBase {
	return api.SubjectBase{
		Reference: api.Reference{Id: f.subject},
		Type:      api.SubjectType(f.typ.FQSubject()),
	}
}

func deployed04(f facts) api.CDEventReader {
	return &v04.ServiceDeployedEvent{
		Context: context04(f),
		Subject: v04.ServiceDeployedSubject{
			SubjectBase: subject04(f),
			Content:     api.ServiceDeployedSubjectContentV0_2_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func upgraded04(f facts) api.CDEventReader {
	return &v04.ServiceUpgradedEvent{
		Context: context04(f),
		Subject: v04.ServiceUpgradedSubject{
			SubjectBase: subject04(f),
			Content:     api.ServiceUpgradedSubjectContentV0_2_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func rolledBack04(f facts) api.CDEventReader {
	return &v04.ServiceRolledbackEvent{
		Context: context04(f),
		Subject: v04.ServiceRolledbackSubject{
			SubjectBase: subject04(f),
			Content:     api.ServiceRolledbackSubjectContentV0_2_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func published04(f facts) api.CDEventReader {
	return &v04.ServicePublishedEvent{
		Context: context04(f),
		Subject: v04.ServicePublishedSubject{
			SubjectBase: subject04(f),
			Content:     api.ServicePublishedSubjectContentV0_2_0{Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func removed04(f facts) api.CDEventReader {
	return &v04.ServiceRemovedEvent{
		Context: context04(f),
		Subject: v04.ServiceRemovedSubject{
			SubjectBase: subject04(f),
			Content:     api.ServiceRemovedSubjectContentV0_2_0{Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func custom04(f facts) api.CDEventReader {
	return &v04.CustomTypeEvent{
		Context:           context04(f),
		Subject:           v04.CustomTypeSubject{SubjectBase: subject04(f), Content: content(f)},
		CDEventCustomData: f.data,
	}
}

func detected04(f facts) api.CDEventReader {
	return &v04.IncidentDetectedEvent{
		Context: context04(f),
		Subject: v04.IncidentDetectedSubject{
			SubjectBase: subject04(f),
			Content: api.IncidentDetectedSubjectContentV0_2_0{
				ArtifactId: f.artifact, Description: f.description, Environment: f.environment, Service: f.service,
			},
		},
		CDEventCustomData: f.data,
	}
}

func resolved04(f facts) api.CDEventReader {
	return &v04.IncidentResolvedEvent{
		Context: context04(f),
		Subject: v04.IncidentResolvedSubject{
			SubjectBase: subject04(f),
			Content: api.IncidentResolvedSubjectContentV0_2_0{
				ArtifactId: f.artifact, Description: f.description, Environment: f.environment, Service: f.service,
			},
		},
		CDEventCustomData: f.data,
	}
}

func judged04(f facts) api.CDEventReader {
	base := subject04(f)
	base.Type = api.TestCaseRunFinishedSubjectV0_2_0{}.GetSubjectType() // in camel case, unlike in the event's type
	return &v04.TestCaseRunFinishedEvent{
		Context: context04(f),
		Subject: v04.TestCaseRunFinishedSubject{
			SubjectBase: base,
			Content: api.TestCaseRunFinishedSubjectContentV0_2_0{
				Environment: f.environment,
				Outcome:     outcome04(f.outcome),
				Reason:      f.reason,
				TestCase: &api.TestCaseRunFinishedSubjectContentTestCaseV0_2_0{
					Id:   f.testCase,
					Name: f.testCaseName,
					Type: testCaseType,
				},
			},
		},
		CDEventCustomData: f.data,
	}
}

func environmentCreated04(f facts) api.CDEventReader {
	return &v04.EnvironmentCreatedEvent{
		Context: context04(f),
		Subject: v04.EnvironmentCreatedSubject{
			SubjectBase: subject04(f),
			Content:     api.EnvironmentCreatedSubjectContentV0_2_0{Name: f.name, Url: f.uri},
		},
		CDEventCustomData: f.data,
	}
}

func environmentModified04(f facts) api.CDEventReader {
	return &v04.EnvironmentModifiedEvent{
		Context: context04(f),
		Subject: v04.EnvironmentModifiedSubject{
			SubjectBase: subject04(f),
			Content:     api.EnvironmentModifiedSubjectContentV0_2_0{Name: f.name, Url: f.uri},
		},
		CDEventCustomData: f.data,
	}
}

func environmentDeleted04(f facts) api.CDEventReader {
	return &v04.EnvironmentDeletedEvent{
		Context: context04(f),
		Subject: v04.EnvironmentDeletedSubject{
			SubjectBase: subject04(f),
			Content:     api.EnvironmentDeletedSubjectContentV0_2_0{Name: f.name},
		},
		CDEventCustomData: f.data,
	}
}
