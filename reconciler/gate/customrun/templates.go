// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"context"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Reasons why there is no policy to judge by. A gate has them in its conditions, too.
//
//reasons:table CanaryGate/TemplateApplied CustomRun/Succeeded
const (
	// TemplateNotFound: the ClusterCanaryGateTemplate does not exist. Ask for it, or name another one.
	TemplateNotFound = "TemplateNotFound"
	// InvalidTemplate: the ClusterCanaryGateTemplate is not valid, or the gate with it. Ask its owner to correct it.
	InvalidTemplate = "InvalidTemplate"
)

// Apply returns the spec with what its template states, and what came of it: nil if it refers to none. A spec whose
// template is missing or invalid has none by which it may be judged.
func Apply(ctx context.Context, spec *v1alpha1.CanaryGateSpec, template *v1alpha1.ClusterCanaryGateTemplate) (
	*v1alpha1.CanaryGateSpec, *v1alpha1.GateTemplateUse, *Problem,
) {
	name := spec.Template()
	if name == "" {
		return spec.DeepCopy(), nil, nil
	}
	if template == nil {
		return nil, nil, invalid(TemplateNotFound,
			"ClusterCanaryGateTemplate %q does not exist; create it, or name one that does in templateRef", name)
	}
	if err := template.Validate(ctx); err != nil {
		return nil, nil, invalid(InvalidTemplate, "ClusterCanaryGateTemplate %q is not valid: %s", name, err)
	}
	out, use := spec.With(ctx, template)
	if err := out.Validate(ctx); err != nil {
		return nil, nil, invalid(InvalidTemplate, "the gate is not valid with ClusterCanaryGateTemplate %q: %s", name, err)
	}
	return out, use, nil
}
