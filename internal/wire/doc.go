// Package wire translates between the vocabulary of package tenure and the
// messages of the network API, in both directions, so that server and client
// cannot disagree: claims, commands, leases, events, errors and their codes,
// and the JSON form of every message.
//
// A message that comes from the network is decoded into the vocabulary or
// refused with an [tenure.Error] of code ErrInvalid that names the field.
// Whether a well-formed value is within the limits is for the engine to say,
// in the order of its law.
package wire
