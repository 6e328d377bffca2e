// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"github.com/cdevents/sdk-go/pkg/api"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"
)

// The events of CDEvents 0.5. They are literals, because the SDK's constructors read the clock and
// make random ids.

func context05(f facts) api.ContextV05 {
	return api.ContextV05{
		SharedContext: shared(f),
		SpecVersion:   v05.SpecVersion,
		ContextLinks:  api.ContextLinks{ChainId: f.chain, Links: f.links},
	}
}

// subject05 sets no source: that is for subjects whose source differs from the event's (CDEvents
// spec.md, source (subject)).
func subject05(f facts) api.SubjectBaseV05 {
	return api.SubjectBaseV05{Reference: api.Reference{Id: f.subject}}
}

func deployed05(f facts) api.CDEventReader {
	return &v05.ServiceDeployedEvent{
		Context: context05(f),
		Subject: v05.ServiceDeployedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.ServiceDeployedSubjectContentV0_3_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func upgraded05(f facts) api.CDEventReader {
	return &v05.ServiceUpgradedEvent{
		Context: context05(f),
		Subject: v05.ServiceUpgradedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.ServiceUpgradedSubjectContentV0_3_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func rolledBack05(f facts) api.CDEventReader {
	return &v05.ServiceRolledbackEvent{
		Context: context05(f),
		Subject: v05.ServiceRolledbackSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.ServiceRolledbackSubjectContentV0_3_0{ArtifactId: f.artifact, Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func published05(f facts) api.CDEventReader {
	return &v05.ServicePublishedEvent{
		Context: context05(f),
		Subject: v05.ServicePublishedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.ServicePublishedSubjectContentV0_3_0{Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func removed05(f facts) api.CDEventReader {
	return &v05.ServiceRemovedEvent{
		Context: context05(f),
		Subject: v05.ServiceRemovedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.ServiceRemovedSubjectContentV0_3_0{Environment: f.environment},
		},
		CDEventCustomData: f.data,
	}
}

func custom05(f facts) api.CDEventReader {
	return &v05.CustomTypeEvent{
		Context:           context05(f),
		Subject:           v05.CustomTypeSubject{SubjectBaseV05: subject05(f), Content: content(f)},
		CDEventCustomData: f.data,
	}
}

func detected05(f facts) api.CDEventReader {
	return &v05.IncidentDetectedEvent{
		Context: context05(f),
		Subject: v05.IncidentDetectedSubject{
			SubjectBaseV05: subject05(f),
			Content: api.IncidentDetectedSubjectContentV0_3_0{
				ArtifactId: f.artifact, Description: f.description, Environment: f.environment, Service: f.service,
			},
		},
		CDEventCustomData: f.data,
	}
}

func resolved05(f facts) api.CDEventReader {
	return &v05.IncidentResolvedEvent{
		Context: context05(f),
		Subject: v05.IncidentResolvedSubject{
			SubjectBaseV05: subject05(f),
			Content: api.IncidentResolvedSubjectContentV0_3_0{
				ArtifactId: f.artifact, Description: f.description, Environment: f.environment, Service: f.service,
			},
		},
		CDEventCustomData: f.data,
	}
}

func judged05(f facts) api.CDEventReader {
	return &v05.TestCaseRunFinishedEvent{
		Context: context05(f),
		Subject: v05.TestCaseRunFinishedSubject{
			SubjectBaseV05: subject05(f),
			Content: api.TestCaseRunFinishedSubjectContentV0_3_0{
				Environment: f.environment,
				Outcome:     f.outcome,
				Reason:      f.reason,
				TestCase: &api.TestCaseRunFinishedSubjectContentTestCaseV0_3_0{
					Id:   f.testCase,
					Name: f.testCaseName,
					Type: testCaseType,
				},
			},
		},
		CDEventCustomData: f.data,
	}
}

func environmentCreated05(f facts) api.CDEventReader {
	return &v05.EnvironmentCreatedEvent{
		Context: context05(f),
		Subject: v05.EnvironmentCreatedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.EnvironmentCreatedSubjectContentV0_3_0{Name: f.name, Uri: f.uri},
		},
		CDEventCustomData: f.data,
	}
}

func environmentModified05(f facts) api.CDEventReader {
	return &v05.EnvironmentModifiedEvent{
		Context: context05(f),
		Subject: v05.EnvironmentModifiedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.EnvironmentModifiedSubjectContentV0_3_0{Name: f.name, Uri: f.uri},
		},
		CDEventCustomData: f.data,
	}
}

func environmentDeleted05(f facts) api.CDEventReader {
	return &v05.EnvironmentDeletedEvent{
		Context: context05(f),
		Subject: v05.EnvironmentDeletedSubject{
			SubjectBaseV05: subject05(f),
			Content:        api.EnvironmentDeletedSubjectContentV0_3_0{Name: f.name},
		},
		CDEventCustomData: f.data,
	}
}
