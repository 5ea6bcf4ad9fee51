// Package client is the [tenure.Engine] of a Tenure server elsewhere.
//
// One bidirectional stream carries the calls of all concurrent callers. What
// has gathered while the last message was on its way goes out as one message,
// and answers are matched to their requests by id, so batches form by
// themselves and a single caller pays one round trip.
//
// A stream that breaks is opened again, with growing pauses, and every call
// that was not answered is sent again under the operation that it had: the
// server executes it once, and tells a repeat what became of it. A caller
// waits for that until its context ends, and is then told
// [tenure.ErrUnknownOutcome] if the call may have arrived,
// [tenure.ErrUnavailable] if it was never sent. Calls that wait go on waiting
// over a restart of the server for what is left of their wait, but lose their
// place in line; a watch goes on after the last event that it saw.
package client
