// SPDX-License-Identifier: Apache-2.0

package valid

// Reasons of more than one condition of a source.
//
//reasons:table CDEventSource/Valid CDEventSource/Sink
const (
	// InvalidField: a field has a value of another type. Write it as the message says.
	InvalidField = "InvalidField"
)

// LookupFailed is the reason if the API server does not answer.
//
//reasons:table CDEventSource/Valid CDEventSource/Sink CDEventSource/CredentialsReady
const (
	// LookupFailed: the API server did not answer. Wait; the controller tries again.
	LookupFailed = "LookupFailed"
)

// NotConfigured is the reason if the spec asks for nothing.
//
//reasons:table CDEventSource/Sink CDEventSource/CredentialsReady
const (
	// NotConfigured: True, because the source has none, and needs none.
	NotConfigured = "NotConfigured"
)

// Reasons why a spec is invalid, apart from its sinks.
//
//reasons:table CDEventSource/Valid
const (
	// NamespaceSelectorNotAllowed: a source of this namespace selects namespaces. Remove the selector, or ask an
	// operator for a source in the controller's namespace.
	NamespaceSelectorNotAllowed = "NamespaceSelectorNotAllowed"
	// InvalidSelector: a label selector is not valid. Correct it.
	InvalidSelector = "InvalidSelector"
	// InvalidFilter: a filter cannot be parsed, or can match no event. Correct it.
	InvalidFilter = "InvalidFilter"
	// InvalidDelivery: a field of delivery is not valid. Correct it.
	InvalidDelivery = "InvalidDelivery"
	// InvalidVersion: the version of CDEvents is not known. Use one that the message names.
	InvalidVersion = "InvalidVersion"
	// InvalidEnvironment: the id or the source of environment is not valid. Correct it.
	InvalidEnvironment = "InvalidEnvironment"
	// InvalidAuth: a name of a Secret, or of a key in it, can be none. Correct it.
	InvalidAuth = "InvalidAuth"
	// InvalidOverrides: CloudEvents does not allow an extension of ceOverrides, or there are too many. Correct them.
	InvalidOverrides = "InvalidOverrides"
	// SourceTooLarge: ceOverrides and environment are too large to be stored with each event. Shorten them.
	SourceTooLarge = "SourceTooLarge"
	// TooManySources: the namespace has more sources than may receive events. Delete one that is not needed.
	TooManySources = "TooManySources"
)

// Reasons why a sink or a dead letter sink has no address.
//
//reasons:table CDEventSource/Sink
const (
	// SinkMissing: there is neither ref nor uri. Specify one of them.
	SinkMissing = "SinkMissing"
	// RefAndURI: there is a ref, and a uri with a host. Remove one, or leave only the path in uri.
	RefAndURI = "RefAndURI"
	// InvalidReference: ref lacks apiVersion, kind or name, or apiVersion is not GROUP/VERSION. Correct it.
	InvalidReference = "InvalidReference"
	// InvalidURI: the address is relative, too long, has a password, or a wrong scheme or host. Correct it.
	InvalidURI = "InvalidURI"
	// SinkNamespaceNotAllowed: ref names an object of another namespace. Use its address as uri instead.
	SinkNamespaceNotAllowed = "SinkNamespaceNotAllowed"
	// SinkKindNotAllowed: objects of this kind cannot receive events. Use a Broker, a Channel or a Service.
	SinkKindNotAllowed = "SinkKindNotAllowed"
	// SinkKindNotInstalled: the cluster has no such kind. Install it, or correct apiVersion and kind.
	SinkKindNotInstalled = "SinkKindNotInstalled"
	// SinkNotFound: the object that ref names does not exist. Create it, or correct ref.
	SinkNotFound = "SinkNotFound"
	// SinkForbidden: the controller may not read objects of this kind. Ask an operator for the ClusterRole that the
	// message describes.
	SinkForbidden = "SinkForbidden"
	// SinkNotAddressable: the object has no address that can be used. Find out why it is not Ready.
	SinkNotAddressable = "SinkNotAddressable"
	// SinkAddressNotFound: the object has no address with the name that ref has. Use one that the message names.
	SinkAddressNotFound = "SinkAddressNotFound"
	// SinkHasCredentials: the address in the object's status contains credentials. Move them to spec.auth.
	SinkHasCredentials = "SinkHasCredentials" //nolint:gosec // a reason
	// SinkNotAllowed: events may not be sent to this host. Ask an operator to add it to sink-hosts.
	SinkNotAllowed = "SinkNotAllowed"
)

// SinkNotResolved is the reason if there is nothing to check credentials for.
//
//reasons:table CDEventSource/CredentialsReady
const (
	// SinkNotResolved: the sink has no address yet, so its credentials are not checked. See the sink's condition.
	SinkNotResolved = "SinkNotResolved"
)

// Reasons why a source does not deliver.
//
//reasons:table CDEventSource/Delivering
const (
	// SinkFails: the sink does not accept events. Repair it; the events wait, and follow by themselves.
	SinkFails = "SinkFails"
	// Waiting: events have been waiting for more than a minute. Look into the controller's log.
	Waiting = "Waiting"
	// NothingSentYet: there has been no event to send.
	NothingSentYet = "NothingSentYet"
)
