// Package tenurev1 is the network API of Tenure: messages and services
// generated from the .proto files beside it, which hold its documentation. The
// same methods are served as JSON under their proto names.
//
// Regenerate with ./scripts/generate.
package tenurev1
