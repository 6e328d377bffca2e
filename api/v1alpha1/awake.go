// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations of the controller's Deployment in the serverless mode.
const (
	// AwakeAnnotation says whether the controller is awake or asleep, and why.
	AwakeAnnotation = GroupName + "/awake"
	// AwakeAtAnnotation is when AwakeAnnotation was written, in RFC 3339.
	AwakeAtAnnotation = GroupName + "/awake-at"
	// AwakeReplicasAnnotation is how many replicas the controller has when it is awake.
	AwakeReplicasAnnotation = GroupName + "/awake-replicas"
)
