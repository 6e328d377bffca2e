// SPDX-License-Identifier: Apache-2.0

package credentials

// Reasons why credentials are withheld.
//
//reasons:table CDEventSource/CredentialsReady
const (
	// InvalidURI: the host of the sink's address cannot be used. Correct the address.
	InvalidURI = "InvalidURI"
	// SinkNotEncrypted: the credentials are sent only over TLS. Use an address with https or kafkas.
	SinkNotEncrypted = "SinkNotEncrypted"
	// TwoAuthorizations: a request would need two Authorization headers. Remove one of those that the message names.
	TwoAuthorizations = "TwoAuthorizations"
	// AudienceNotSupported: no tokens are sent over the protocol of this sink. Remove audience, and use spec.auth.
	AudienceNotSupported = "AudienceNotSupported"
	// AudienceReserved: the API server itself accepts tokens for this audience. Use another one for the sink.
	AudienceReserved = "AudienceReserved"
	// SecretNotFound: the Secret does not exist. Create it, or correct its name in spec.auth.
	SecretNotFound = "SecretNotFound"
	// SecretForbidden: the controller may not read the Secret. Create the RoleBinding that the message describes.
	SecretForbidden = "SecretForbidden"
	// SecretKeyNotFound: the Secret lacks a key. Add it, or correct the key in spec.auth.
	SecretKeyNotFound = "SecretKeyNotFound"
	// SecretNotForSink: the Secret does not allow the host of the sink. Add it to the annotation that the message
	// names.
	SecretNotForSink = "SecretNotForSink"
	// InvalidAuthorization: the value in the Secret is not a valid header or login. Correct it.
	InvalidAuthorization = "InvalidAuthorization"
	// InvalidClientCertificate: the Secret does not have a valid certificate and key. Correct or renew them.
	InvalidClientCertificate = "InvalidClientCertificate"
	// IdentityForbidden: the controller may not create the source's ServiceAccount or its tokens. Create the RoleBinding
	// that the message describes.
	IdentityForbidden = "IdentityForbidden"
	// IdentityTaken: another ServiceAccount has the name that the source needs. Delete it, or rename the source.
	IdentityTaken = "IdentityTaken"
)
